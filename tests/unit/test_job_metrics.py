"""What the jobs count reaches Flink's counters, once, under names that Prometheus can use."""

from __future__ import annotations

from typing import Self

from operators.answers import Verdict
from operators.flink_metrics import CounterExport
from operators.scoring_stats import Buckets, ScoringStats
from tests.lane_frames import lane_frame
from tidemill.contracts import DeadLetterReason, Status, Tier


class Counters:
    """Flink's metric group: keeps the path and the labels of each counter."""

    def __init__(self, path: tuple[str, ...] = (), labels: tuple[str, ...] = ()) -> None:
        self.path, self.labels, self.count = path, labels, 0
        self.made: dict[tuple[str, ...], Counters] = {}

    def add_group(self, name: str, value: str | None = None) -> Counters:
        group = Counters((*self.path, name), self.labels + ((value,) if value else ()))
        group.made = self.made
        return group

    def counter(self, name: str) -> Self:
        made = type(self)((*self.path, name), self.labels)
        key = (*made.path, *made.labels)
        assert key not in self.made, "Flink keeps the first counter of a name and drops the others"
        self.made[key] = made
        return made

    def inc(self, n: int) -> None:
        self.count += n

    def values(self) -> dict[str, int]:
        return {" ".join(key): made.count for key, made in self.made.items()}


def test_counts_become_counters_and_labels_become_groups() -> None:
    flink = Counters()
    export = CounterExport(flink, "decode")
    export.add({"rows": 3, "dead_letters.reason.tombstone": 2, "late_rows": 0})
    export.add({"rows": 4})
    assert flink.values() == {
        "tidemill decode rows": 7,
        "tidemill decode dead_letters reason rows tombstone": 2,
        "tidemill decode late_rows": 0,
    }


def test_totals_add_their_growth_and_may_fall_where_they_stand_for_a_gauge() -> None:
    flink = Counters()
    export = CounterExport(flink, "scoring")
    for rows, pending in ((5, 5), (9, 2), (9, 0)):
        export.totals({"answers.status.ok": rows, "pending_rows": pending})
    assert flink.values() == {
        "tidemill scoring answers status rows ok": 9,
        "tidemill scoring pending_rows": 0,
    }


def test_buckets_are_cumulative_and_end_in_infinity() -> None:
    buckets = Buckets((0.001, 0.5, 2.0))
    for value, times in ((0.001, 1), (0.0011, 2), (2.0, 4), (99.0, 8)):
        buckets.observe(value, times)
    flink = Counters()
    CounterExport(flink, "scoring").totals(dict(buckets.totals("latency_seconds")))
    path = "tidemill scoring latency_seconds le bucket"
    assert flink.values() == {
        f"{path} 0.001": 1, f"{path} 0.5": 3, f"{path} 2": 7, f"{path} +Inf": 15,
    }  # fmt: skip


def test_an_answer_counts_in_the_stages_that_it_went_through() -> None:
    stats = ScoringStats()
    frame = lane_frame(3)
    frame.deadlines = [frame.first_arrival_ms + limit for limit in (5, 10, 50)]
    done_ms = frame.first_arrival_ms + 10
    stats.answered([0, 1], frame, Verdict(Status.OK, Tier.FULL, None, None, 7.0, 2.0), done_ms)
    late = Verdict(Status.LATE, Tier.NONE, "late", "behind")
    stats.answered([2], frame, late, done_ms)
    totals = stats.totals()
    assert totals["answers.status.ok"] == 2
    assert totals["answers.status.late"] == 1
    assert totals["answers.status.rejected"] == 0
    assert totals["answers.tier.full"] == 2
    assert totals["answers.tier.none"] == 1
    assert totals["answers.reason.late"] == 1
    assert totals["in_sla_rows"] == 1
    assert totals["latency_seconds.le.0.01"] == totals["latency_seconds.le.+Inf"] == 3
    assert totals["queue_seconds.le.0.005"] == 0
    assert totals["queue_seconds.le.0.01"] == totals["queue_seconds.le.+Inf"] == 2
    assert totals["service_seconds.le.0.002"] == totals["service_seconds.le.+Inf"] == 2


def test_rules_take_no_time_of_the_model() -> None:
    stats = ScoringStats()
    frame = lane_frame(1)
    verdict = Verdict(Status.OK, Tier.RULES, "worker_down", None, 3.0)
    stats.answered([0], frame, verdict, frame.first_arrival_ms)
    assert stats.totals()["queue_seconds.le.+Inf"] == 1
    assert stats.totals()["service_seconds.le.+Inf"] == 0


def test_batches_deliveries_debts_and_dead_letters_are_counted() -> None:
    stats = ScoringStats()
    stats.sent(64)
    stats.sent(65)
    stats.delivered(129, 4.0)
    stats.owed(7)
    stats.dead_lettered(DeadLetterReason.MODEL_ERROR, 2)
    totals = stats.totals()
    assert totals["batches"] == 2
    assert totals["batch_rows.le.64"] == 1
    assert totals["batch_rows.le.128"] == 2
    assert totals["delivery_seconds.le.0.005"] == 129
    assert totals["owed_rows"] == 7
    assert totals["dead_letters.reason.model_error"] == 2
    assert totals["dead_letters.reason.non_finite_output"] == 0
