"""The given recalibration rule, w += alpha * error * importance - decay * w, and what it can do.

It is a leaky integrator.  Under a constant error w goes to alpha * error * importance / decay, with a
time constant of 1/decay updates.  In a closed loop whose output moves by ``gain`` a unit of w it
leaves decay / (decay + k) of a constant error, k = alpha * importance * gain: with alpha 0.005, decay
0.01 and unit gain two thirds stay, one third is removed.

The error must be that of the current weights on the stored features when the label comes.  With the
error of the prediction that was served, d updates ago, the loop is stable only if all roots of
z^(d+1) - (1 - decay) z^d + k lie inside the unit circle; for k < decay that holds for every delay.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from tidemill.errors import SettingsError

MAX_IDS: Final = 100_000  # a label that comes again after so many others counts again


@dataclass(frozen=True, slots=True)
class LeakyPolicy:
    """``clip_error`` bounds one label's pull, ``max_weight`` what the rule may do at all."""

    alpha: float = 0.005
    decay: float = 0.01
    clip_error: float = 1.0
    max_weight: float = 0.5

    def __post_init__(self) -> None:
        if not (self.alpha > 0 and 0 < self.decay < 1):
            raise SettingsError(f"alpha {self.alpha} must be above 0, decay {self.decay} in (0, 1)")
        if not (self.clip_error > 0 and self.max_weight > 0):
            raise SettingsError("clip_error and max_weight must be above 0")

    def step(self, weight: float, error: float, importance: float) -> float:
        """The next weight; non-finite errors and a negative importance change nothing."""
        if not (math.isfinite(error) and math.isfinite(importance)) or importance < 0:
            return weight
        clipped = min(max(error, -self.clip_error), self.clip_error)
        moved = weight + self.alpha * clipped * importance - self.decay * weight
        return min(max(moved, -self.max_weight), self.max_weight)


@dataclass(slots=True)
class LeakyWeight:
    """A weight that takes each label once, by its id."""

    policy: LeakyPolicy
    weight: float = 0.0
    _seen: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def learn(self, label_id: str, error: float, importance: float) -> bool:
        """Take a label; False if its id is known."""
        if label_id in self._seen:
            return False
        self._seen[label_id] = None
        if len(self._seen) > MAX_IDS:
            self._seen.popitem(last=False)
        self.weight = self.policy.step(self.weight, error, importance)
        return True


def residual(loop_gain: float, decay: float) -> float:
    """Share of a constant error that a closed loop leaves; ``loop_gain`` is k."""
    return decay / (decay + loop_gain)


def stable_for_all_delays(loop_gain: float, decay: float) -> bool:
    """Whether stale errors of any age leave the loop stable: |1 - decay| + k < 1."""
    return abs(1.0 - decay) + loop_gain < 1.0


def critical_gain(decay: float, delay_updates: int) -> float:
    """Largest loop gain that is stable with errors ``delay_updates`` old.

    On the unit circle, z = e^(it), this takes sin((d+1) t) = (1 - decay) sin(d t) and then
    k = (1 - decay) cos(d t) - cos((d+1) t); the smallest angle t is the first root to leave it.
    """
    keep = 1.0 - decay
    if delay_updates == 0:
        return 1.0 + keep

    def imaginary(angle: float) -> float:
        return math.sin((delay_updates + 1) * angle) - keep * math.sin(delay_updates * angle)

    # positive just above 0, and not any more at pi / (d + 1), where the first sine is 0
    low, high = 0.0, math.pi / (delay_updates + 1)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if imaginary(middle) > 0 else (low, middle)
    return keep * math.cos(delay_updates * low) - math.cos((delay_updates + 1) * low)


def fresh_error(label: float, base_logit: float, calibration: float) -> float:
    """Label minus the probability that the stored logit has under the ``calibration`` of now."""
    return label - 1.0 / (1.0 + math.exp(-(base_logit + calibration)))
