"""How long the worker needs for a batch, by bucket: decides what "too late to send" means.

Fed only with service times measured inside the worker, without queueing: a model of service time
that contains waiting makes batches shrink under load, which is the moment they must not
(clipper#222).  The estimate is mean + 2 deviations, both exponentially weighted, after
Jacobson, "Congestion avoidance and control" (1988), the rule of TCP's retransmission timer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

_GAIN = 0.125
_DEVIATION_GAIN = 0.25


@dataclass(slots=True)
class _Estimate:
    mean_ms: float
    deviation_ms: float

    def update(self, sample_ms: float) -> None:
        error = sample_ms - self.mean_ms
        self.mean_ms += _GAIN * error
        self.deviation_ms += _DEVIATION_GAIN * (abs(error) - self.deviation_ms)

    @property
    def upper_ms(self) -> float:
        return self.mean_ms + 2 * self.deviation_ms


@dataclass(slots=True)
class ServiceTimes:
    """Service-time estimates of one model version; ``buckets`` are row counts, ascending."""

    buckets: tuple[int, ...]
    _estimates: dict[int, _Estimate] = field(default_factory=dict)

    @classmethod
    def from_warm_up(
        cls, buckets: tuple[int, ...], service_us: Mapping[int, float]
    ) -> ServiceTimes:
        """Start from the times that the worker measured per bucket while it warmed up."""
        times = cls(tuple(sorted(buckets)))
        for bucket in times.buckets:
            sample_ms = service_us.get(bucket, 0.0) / 1000
            times._estimates[bucket] = _Estimate(sample_ms, sample_ms / 4)
        return times

    def bucket(self, rows: int) -> int:
        """The smallest bucket that holds ``rows``; the largest bucket when none does."""
        at = bisect_left(self.buckets, rows)
        return self.buckets[min(at, len(self.buckets) - 1)]

    def expected_ms(self, rows: int) -> float:
        """Upper estimate (mean + 2 deviations) of the service time of a batch of ``rows``."""
        return self._estimates[self.bucket(rows)].upper_ms

    def observe(self, bucket: int, service_ms: float) -> None:
        """Take one measured batch; a bucket that the worker did not declare is ignored."""
        estimate = self._estimates.get(bucket)
        if estimate is not None:
            estimate.update(service_ms)
