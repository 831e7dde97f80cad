"""The thresholds and guards of the drift loop: what is configured, checked once.

PSI: below 0.1 nothing, from 0.1 an alert, above 0.25 a freeze, and this only if it lasts and is
beyond noise.  KS alone may alert, never freeze: it is blind to spread and tails, and a freeze of a
healthy feature costs more than a late one.  Persistence is a time, not a number of slides: windows
overlap, so consecutive slides agree with each other about nothing new.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidemill.errors import SettingsError

_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class DriftPolicy:
    """``persist_ms`` and ``calm_ms`` of None mean half of ``window_ms``."""

    window_ms: int = 3_600_000
    slide_ms: int = 60_000
    alert_psi: float = 0.1
    alert_clear_psi: float = 0.08
    freeze_psi: float = 0.25
    freeze_clear_psi: float = 0.1
    freeze_bound: float = 0.1  # the lower bound of the true PSI must exceed it
    bound_level: float = 0.95
    ks_alert: float = 0.1
    ks_severe: float = 0.2
    ks_clear: float = 0.08
    unusable_share: float = 0.5  # missing, unseen and non-finite together: may freeze at once
    family_alpha: float = 0.01  # chance that noise alerts on any feature of a window
    min_rows: int = 100  # a window is never judged below it, whatever noise would allow
    persist_ms: int | None = None
    calm_ms: int | None = None
    max_frozen_share: float = 0.3  # above, the stream is broken and not its features
    max_frozen_ms: int = _DAY_MS  # a person should look at a longer freeze

    def __post_init__(self) -> None:
        self._rising("alert_clear_psi", "alert_psi", "freeze_psi")
        self._rising("freeze_clear_psi", "freeze_psi")
        self._rising("ks_clear", "ks_alert", "ks_severe")
        for name in ("bound_level", "family_alpha", "unusable_share", "max_frozen_share"):
            value = getattr(self, name)
            if not 0 < value < 1:
                raise SettingsError(f"{name} {value} is not between 0 and 1")
        for name in ("window_ms", "slide_ms", "min_rows", "max_frozen_ms"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} {getattr(self, name)} is less than 1")
        if min(self.persistence_ms, self.calmness_ms) < 0 or self.freeze_bound < 0:
            raise SettingsError("persist_ms, calm_ms and freeze_bound can't be negative")

    def _rising(self, *names: str) -> None:
        values = [getattr(self, name) for name in names]
        if not all(value > 0 for value in values) or values != sorted(values):
            pairs = ", ".join(f"{n} {v}" for n, v in zip(names, values, strict=True))
            raise SettingsError(f"{pairs}: each must be above 0 and none above the next")

    @property
    def persistence_ms(self) -> int:
        """How long a freeze's reason must last."""
        return self.window_ms // 2 if self.persist_ms is None else self.persist_ms

    @property
    def calmness_ms(self) -> int:
        """How long calm must last before an alert clears or a freeze ends."""
        return self.window_ms // 2 if self.calm_ms is None else self.calm_ms

    def alpha(self, features: int) -> float:
        """Level of one feature's test, so that the family keeps its own (Bonferroni)."""
        return self.family_alpha / max(features, 1)

    def frozen_limit(self, features: int) -> int:
        """Features that may be frozen at once; one always may."""
        return max(1, int(self.max_frozen_share * features))
