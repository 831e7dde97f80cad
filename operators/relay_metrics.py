"""The relay's metrics; docs/metrics.md has their meaning.  Base units, no ids in labels."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from operators.relay import Verdict


class RelayMetrics:
    """Counters of one relay, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.results = Counter(
            "tidemill_relay_results",
            "Result records read, by verdict",
            ["verdict"],
            registry=self.registry,
        )
        for verdict in Verdict:
            self.results.labels(verdict.value)
        self.kept = Counter(
            "tidemill_relay_kept_answers",
            "Answers that Redis had already, of the same or a newer attempt",
            registry=self.registry,
        )
        self.refused_callbacks = Counter(
            "tidemill_relay_refused_callbacks",
            "Entries that a caller's stream did not take",
            registry=self.registry,
        )
        self.failures = Counter(
            "tidemill_relay_redis_failures", "Failed writes to Redis", registry=self.registry
        )
        self.skipped = Counter(
            "tidemill_relay_skipped_offsets",
            "Offsets that retention removed before they were read",
            registry=self.registry,
        )
        self.redis_up = Gauge(
            "tidemill_relay_redis_up",
            "0 from a failed write on, until one is taken",
            registry=self.registry,
        )
        self.redis_up.set(1)  # a relay that owes nothing writes nothing, and nothing is wrong
        self.lag = Gauge(
            "tidemill_relay_lag_records",
            "Offsets between the commits and the end; -1 is unknown",
            registry=self.registry,
        )
        self.delivery = Histogram(
            "tidemill_relay_delivery_seconds",
            "From the job's answer to its delivery by the relay",
            registry=self.registry,
            buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 15, 60, 300, 900),
        )
