"""Counts what became of what was sent. Pure: the ledger on one side, what was found on the other.

Sent is what the ledger says. Found is what lies in Kafka and Redis; the job's own counters are
never asked. Records of the warm-up are left out everywhere.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from deploy.demo.ledger import Entry
from deploy.demo.numbers import percentiles
from deploy.demo.plan import Kind, expected_reason
from tidemill.answer import Answer
from tidemill.contracts import Status, Tier

Place = tuple[int, int]  # partition and offset on the topic of orders
WARMUP_PREFIX: Final = "warmup-"
_SHOWN: Final = 3  # names in a message


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter: where its record came from, why it was set aside, and its value."""

    place: Place
    reason: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Order:
    """A record on the topic of orders. ``name`` is its task, or the name of a BAD record."""

    place: Place
    name: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Found:
    """What lies in Kafka and Redis.

    ``results``: task and value of each record on the result topic. ``late``: the task and the
    lateness in ms of each late record. ``answers``: the value in Redis of each task, None if there
    is none. ``heard_ms``: from producing to the callback, as the demo's own subscriber heard it.
    """

    orders: Sequence[Order]
    results: Sequence[tuple[str, bytes]]
    late: Sequence[tuple[str, int]]
    letters: Sequence[Letter]
    answers: Mapping[str, bytes | None]
    heard_ms: Mapping[str, float]


@dataclass(slots=True)
class Report:
    """The counts of the demo's last line, and ``problems`` in words. ``dead_letters``: of records."""

    sent: int = 0
    answered: int = 0
    in_sla: int = 0
    late: int = 0
    dead_letters: int = 0
    errors: int = 0
    lost: int = 0
    duplicated: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None
    tiers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(map(str, Tier), 0))
    problems: list[str] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)
    lateness_ms: tuple[int, int] | None = None
    mean_error: float | None = None

    @property
    def good(self) -> bool:
        """Whether everything sent came to its right end."""
        return not (self.problems or self.lost or self.duplicated) and self.answered > 0

    def as_dict(self) -> dict[str, Any]:
        """The object of the last line."""
        names = (
            "sent", "answered", "in_sla", "late", "dead_letters", "errors", "lost", "duplicated",
            "p50_ms", "p99_ms", "tiers",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}


def tally(entries: Iterable[Entry], found: Found, *, strict: bool = False) -> Report:
    """Count; raises ContractError if an answer can't be read."""
    counted = [entry for entry in entries if entry.kind is not Kind.WARMUP]
    tasks = {entry.task for entry in counted if entry.task is not None}
    bad = {entry.name for entry in counted if entry.task is None}
    names = {order.place: order.name for order in found.orders}
    letters = {letter.place: letter for letter in found.letters if letter.place in names}
    letters = {p: x for p, x in letters.items() if not names[p].startswith(WARMUP_PREFIX)}
    answers = {
        task: Answer.from_json(value) for task in tasks if (value := found.answers.get(task))
    }
    lost = tasks - answers.keys() - {names[place] for place in letters}
    report = Report(sent=len(tasks), answered=len(answers), lost=len(lost))
    _count_answers(report, answers.values())
    report.dead_letters = len(letters)
    report.reasons = dict(Counter(letter.reason for letter in letters.values()).most_common())
    twice = _duplicated(tasks, found, strict=strict)
    report.duplicated = len(twice)
    on_time = {entry.name for entry in counted if entry.kind is Kind.ORDER}
    report.p50_ms, report.p99_ms = percentiles(
        [ms for task, ms in found.heard_ms.items() if task in on_time]
    )
    lateness = [ms for task, ms in found.late if task in tasks]
    report.lateness_ms = (min(lateness), max(lateness)) if lateness else None
    report.mean_error = _mean_error(counted, answers)
    report.problems += _named("sent and neither answered nor a dead letter", lost)
    report.problems += _named("with two answers that differ", twice)
    report.problems += _contradictions(found, tasks, bad, answers)
    report.problems += _letter_problems(found, bad, letters, names)
    return report


def _count_answers(report: Report, answers: Iterable[Answer]) -> None:
    for answer in answers:
        report.in_sla += answer.in_sla
        report.late += answer.status is Status.LATE
        report.errors += answer.status is Status.ERROR
        report.tiers[answer.tier] += 1


def _duplicated(tasks: set[str], found: Found, *, strict: bool) -> set[str]:
    """Exactly once means one record; at least once, that all copies are the same."""
    records: dict[str, list[bytes]] = defaultdict(list)
    for task, value in found.results:
        if task in tasks:
            records[task].append(value)
    if strict:
        return {task for task, values in records.items() if len(values) > 1}
    for task in tasks:
        if (kept := found.answers.get(task)) is not None:
            records[task].append(kept)
    return {task for task, values in records.items() if len(set(values)) > 1}


def _contradictions(
    found: Found, tasks: set[str], bad: set[str], answers: Mapping[str, Answer]
) -> list[str]:
    """Where the topics and Redis tell different stories."""
    delivered = {order.name for order in found.orders}
    on_topic = {task for task, _ in found.results}
    late = {task for task, _ in found.late}
    judged_late = {task for task, answer in answers.items() if answer.status is Status.LATE}
    strangers = {t for t in on_topic - tasks if not t.startswith(WARMUP_PREFIX)}
    return [
        *_named("in the ledger and not on the topic of orders", (tasks | bad) - delivered),
        *_named("answered in Redis and not on the result topic", answers.keys() - on_topic),
        *_named("answered as late and not on the late topic", judged_late - late),
        *_named("answered on the result topic and never sent", strangers),
    ]


def _letter_problems(
    found: Found, bad: set[str], letters: Mapping[Place, Letter], names: Mapping[Place, str]
) -> list[str]:
    """Each broken record is owed a letter, with its reason and its bytes as they were."""
    values = {order.place: order.value for order in found.orders}
    broken = {names[place]: letter for place, letter in letters.items() if names[place] in bad}
    wrong = {
        f"{name} ({letter.reason})"
        for name, letter in broken.items()
        if letter.reason != expected_reason(name)
    }
    changed = {name for name, letter in broken.items() if letter.value != values[letter.place]}
    return [
        *_named("broken and without a dead letter", bad - broken.keys()),
        *_named("dead letters with a wrong reason", wrong),
        *_named("dead letters whose bytes were changed", changed),
    ]


def _mean_error(entries: Iterable[Entry], answers: Mapping[str, Answer]) -> float | None:
    """Mean absolute error of the scored orders, in the unit of the model's output."""
    labels = {entry.name: entry.label for entry in entries if entry.label is not None}
    errors = [
        abs(answer.value - label)
        for task, label in labels.items()
        if (answer := answers.get(task)) is not None and answer.value is not None
    ]
    return sum(errors) / len(errors) if errors else None


def _named(what: str, names: Iterable[str]) -> list[str]:
    found = sorted(names)
    if not found:
        return []
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return [f"{len(found)} {what}: {', '.join(found[:_SHOWN])}{more}"]
