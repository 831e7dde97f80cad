"""The demo's count: hand-made ledgers and findings, each fault found and named."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from deploy.demo.ledger import Entry
from deploy.demo.numbers import percentile, percentiles
from deploy.demo.plan import Kind
from deploy.demo.tally import Found, Letter, Order, Report, tally
from tidemill.contracts import RESULT_FIELDS

LATE_MS = 40_000


def answer(task: str, **changed: object) -> bytes:
    """A result as the job writes it."""
    fields: dict[str, object] = {
        "v": 1, "task": task, "attempt": 1, "status": "ok", "tier": "full",
        "outputs": {"delay": 5.0}, "reason": None, "message": None, "model": "m",
        "model_version": "1", "control_version": 0, "frozen": [], "event_ms": 1, "ingest_ms": 10,
        "done_ms": 20, "deadline_ms": 100, "queue_ms": 1.0, "service_ms": 1.0, "partition": 0,
        "offset": 0,
    }  # fmt: skip
    assert tuple(fields) == RESULT_FIELDS
    return json.dumps(fields | changed).encode()


def late_answer(task: str) -> bytes:
    return answer(task, status="late", tier="none", outputs=None, reason="late")


def entry(name: str, kind: Kind = Kind.ORDER) -> Entry:
    return Entry(kind, name, event_ms=1, sent_ns=0, label=7.0)


LEDGER = [
    entry("warmup-1", Kind.WARMUP),
    entry("order-1"),
    entry("order-2"),
    entry("order-1", Kind.DUPLICATE),
    entry("order-3", Kind.LATE),
    entry("bad-0-tombstone", Kind.BAD),
]
ANSWERS: dict[str, bytes | None] = {
    "warmup-1": answer("warmup-1", tier="rules"),
    "order-1": answer("order-1"),
    "order-2": answer("order-2", tier="rules", done_ms=101),
    "order-3": late_answer("order-3"),
}
FOUND = Found(
    orders=[Order((0, i), e.name, b"{}") for i, e in enumerate(LEDGER)],
    results=[(task, value) for task, value in ANSWERS.items() if value],
    late=[("order-3", LATE_MS)],
    letters=[Letter((0, 5), "tombstone", b"{}")],
    answers=ANSWERS,
    heard_ms={"warmup-1": 900.0, "order-1": 5.0, "order-2": 9.0, "order-3": 400.0},
)


def without(found: Found, task: str) -> Found:
    """The same without a trace of the answer."""
    return replace(
        found,
        answers={**found.answers, task: None},
        results=[(t, v) for t, v in found.results if t != task],
    )


def test_a_good_run() -> None:
    report = tally(LEDGER, FOUND)
    assert report.problems == []
    assert report.good
    assert report.as_dict() == {
        "sent": 3, "answered": 3, "in_sla": 1, "late": 1, "dead_letters": 1, "errors": 0,
        "lost": 0, "duplicated": 0, "p50_ms": 5.0, "p99_ms": 9.0,
        "tiers": {"full": 1, "rules": 1, "none": 1},
    }  # fmt: skip
    assert report.reasons == {"tombstone": 1}
    assert report.lateness_ms == (LATE_MS, LATE_MS)
    assert report.mean_error == 2.0


def test_a_task_without_answer_or_dead_letter_is_lost() -> None:
    report = tally(LEDGER, without(FOUND, "order-2"))
    assert (report.sent, report.answered, report.lost) == (3, 2, 1)
    assert report.problems == ["1 sent and neither answered nor a dead letter: order-2"]
    assert not report.good


def test_a_task_with_a_dead_letter_and_no_answer_is_not_lost() -> None:
    letters = [*FOUND.letters, Letter((0, 2), "model_error", b"{}")]
    report = tally(LEDGER, replace(without(FOUND, "order-2"), letters=letters))
    assert (report.answered, report.lost, report.dead_letters) == (2, 0, 2)


def test_an_answer_that_differs_on_the_topic_is_a_duplicate() -> None:
    other = answer("order-1", outputs={"delay": 6.0})
    report = tally(LEDGER, replace(FOUND, results=[*FOUND.results, ("order-1", other)]))
    assert report.duplicated == 1
    assert report.problems == ["1 with two answers that differ: order-1"]
    assert not report.good


def test_an_answer_that_differs_in_redis_is_a_duplicate() -> None:
    report = tally(LEDGER, replace(FOUND, answers={**ANSWERS, "order-1": answer("order-1", v=1.0)}))
    assert report.duplicated == 1


def test_the_same_answer_twice_is_a_duplicate_only_if_exactly_once_is_promised() -> None:
    twice = replace(FOUND, results=[*FOUND.results, ("order-1", answer("order-1"))])
    assert tally(LEDGER, twice).duplicated == 0
    assert tally(LEDGER, twice).good
    assert tally(LEDGER, twice, strict=True).duplicated == 1


def test_the_warmup_is_never_counted() -> None:
    lost_warmup = without(FOUND, "warmup-1")
    letters = [*FOUND.letters, Letter((0, 0), "model_error", b"{}")]
    report = tally(LEDGER, replace(lost_warmup, letters=letters))
    assert report.as_dict() == tally(LEDGER, FOUND).as_dict()
    assert report.problems == []


def test_errors_are_counted() -> None:
    answers = {**ANSWERS, "order-1": answer("order-1", status="error", tier="none", outputs=None)}
    results = [(task, value) for task, value in answers.items() if value]
    assert tally(LEDGER, replace(FOUND, answers=answers, results=results)).errors == 1


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (replace(FOUND, letters=[]), "1 broken and without a dead letter: bad-0-tombstone"),
        (
            replace(FOUND, letters=[Letter((0, 5), "too_deep", b"{}")]),
            "1 dead letters with a wrong reason: bad-0-tombstone (too_deep)",
        ),
        (
            replace(FOUND, letters=[Letter((0, 5), "tombstone", None)]),
            "1 dead letters whose bytes were changed: bad-0-tombstone",
        ),
        (replace(FOUND, late=[]), "1 answered as late and not on the late topic: order-3"),
        (
            replace(FOUND, results=FOUND.results[:-1]),
            "1 answered in Redis and not on the result topic: order-3",
        ),
        (
            replace(FOUND, results=[*FOUND.results, ("order-9", answer("order-9"))]),
            "1 answered on the result topic and never sent: order-9",
        ),
        (
            replace(FOUND, orders=[o for o in FOUND.orders if o.name != "order-3"]),
            "1 in the ledger and not on the topic of orders: order-3",
        ),
    ],
)
def test_what_topics_and_redis_do_not_agree_on_is_named(found: Found, problem: str) -> None:
    report = tally(LEDGER, found)
    assert report.problems == [problem]
    assert not report.good


def test_a_letter_written_twice_counts_once() -> None:
    assert tally(LEDGER, replace(FOUND, letters=[*FOUND.letters, *FOUND.letters])).dead_letters == 1


def test_many_names_are_cut() -> None:
    ledger = [entry(f"order-{i}") for i in range(9)]
    nothing = Found([], [], [], [], {}, {})
    report = tally(ledger, nothing)
    assert report.lost == 9
    assert report.problems[0].endswith("order-0, order-1, order-2 and 6 more")


def test_an_empty_run_is_not_good() -> None:
    report = Report()
    assert not report.good
    assert report.as_dict()["tiers"] == {"full": 0, "rules": 0, "none": 0}
    assert report.as_dict()["p50_ms"] is None


def test_percentiles_are_values_that_occurred() -> None:
    assert percentile([], 0.5) is None
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentiles([float(i) for i in range(1, 101)]) == (50.0, 99.0)
    assert percentiles([1.0]) == (1.0, 1.0)
