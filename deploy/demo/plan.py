"""Which records the demo sends, and when: real orders, with late, repeated and broken ones mixed in.

Pure. Event times are recorded ones on a scale of their own: the recorded stretch is laid over the
act's duration, so that spacing and order stay, and bounds of seconds mean seconds. Each slot of
the schedule sends one record; the same seed gives the same slots.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from models.dataset import Event
from tidemill.contracts import HEADER_TASK_ID, DeadLetterReason

RECORD_HEADER: Final = "demo-record"  # names a record that names no task
REPORTING_DELAY_MS: Final = 2000  # an order is sent so long after it happened, never before it
LATENESS_MARGIN_MS: Final = 15_000
LATENESS_SPAN_MS: Final = 600_000  # late orders happened up to so long before that margin
REPEAT_WITHIN_S: Final = (0.0, 2.0)  # a producer that got no confirmation in time sends again


class Kind(StrEnum):
    """Why a record is sent."""

    WARMUP = "warmup"
    ORDER = "order"
    LATE = "late"
    DUPLICATE = "duplicate"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Sending:
    """One record to be sent `at_s` after the start. ``name`` is its task, for BAD its own name.

    ``label`` is what really happened, in the unit of the model's output.
    """

    at_s: float
    kind: Kind
    name: str
    event_ms: int
    key: bytes
    value: bytes | None
    label: float | None = None

    @property
    def task(self) -> str | None:
        """The task that the record names, None if it names none."""
        return None if self.kind is Kind.BAD else self.name

    @property
    def header(self) -> tuple[str, bytes]:
        """The header that names it."""
        named_by = RECORD_HEADER if self.kind is Kind.BAD else HEADER_TASK_ID
        return named_by, self.name.encode()


@dataclass(frozen=True, slots=True)
class Schedule:
    """When records are sent: `rate` a second for `seconds`, from `start_ms` of the wall clock."""

    start_ms: int
    seconds: float
    rate: float

    @property
    def slots(self) -> int:
        """How many records that makes."""
        return int(self.seconds * self.rate)


@dataclass(frozen=True, slots=True)
class Mix:
    """Shares of the records that are not plain orders."""

    late: float = 0.02
    duplicate: float = 0.02
    bad: float = 0.01
    seed: int = 1

    def __post_init__(self) -> None:
        shares = (self.late, self.duplicate, self.bad)
        if min(shares) < 0 or sum(shares) > 0.5:
            raise ValueError(f"{self}: shares are 0 or more and at most half of all together")

    def kinds(self, slots: int) -> list[Kind]:
        """The kind of each slot; a share over 0 gives at least one."""
        wanted = ((Kind.LATE, self.late), (Kind.DUPLICATE, self.duplicate), (Kind.BAD, self.bad))
        counts = {kind: max(1, round(slots * share)) for kind, share in wanted if share > 0}
        if sum(counts.values()) >= slots:
            raise ValueError(f"{slots} records are too few for a mix of {counts}")
        kinds = [Kind.ORDER] * slots
        # the first slot is a plain order, so that there is one to repeat
        places = random.Random(self.seed).sample(range(1, slots), sum(counts.values()))  # noqa: S311
        taken = iter(places)
        for kind, count in counts.items():
            for _ in range(count):
                kinds[next(taken)] = kind
        return kinds


@dataclass(frozen=True, slots=True)
class TimeScale:
    """Lays recorded times over a stretch of the wall clock, in order and in proportion."""

    recorded_from: int
    recorded_to: int
    start_ms: int
    end_ms: int

    @classmethod
    def over(cls, events: Sequence[Event], start_ms: int, end_ms: int) -> TimeScale:
        """From the first of ``events`` at ``start_ms`` to the last at ``end_ms``."""
        return cls(events[0].event_time_ms, events[-1].event_time_ms, start_ms, end_ms)

    def event_ms(self, recorded_ms: int) -> int:
        """The event time of something recorded at ``recorded_ms``."""
        share = (recorded_ms - self.recorded_from) / max(1, self.recorded_to - self.recorded_from)
        return self.start_ms + round(share * (self.end_ms - self.start_ms))


def plan_warmup(events: Sequence[Event], schedule: Schedule) -> list[Sending]:
    """The first ``events``, one a slot, under names of their own; they are not counted."""
    used = events[: schedule.slots]
    scale = _reported(used, schedule)
    return [
        _order(index / schedule.rate, Kind.WARMUP, f"warmup-{event.order_id}", event, scale)
        for index, event in enumerate(used)
    ]


def plan_orders(
    orders: Sequence[Event],
    held_back: Sequence[Event],
    schedule: Schedule,
    mix: Mix,
    late_before_ms: int,
) -> list[Sending]:
    """One record a slot, all in the order of sending.

    ``held_back`` happened before all ``orders``; those of them that are sent late get event times
    before ``late_before_ms``. Raises ValueError if there are too few events.
    """
    kinds = mix.kinds(schedule.slots)
    fresh = sum(kind in (Kind.ORDER, Kind.BAD) for kind in kinds)
    late = kinds.count(Kind.LATE)
    if fresh > len(orders) or late > len(held_back):
        raise ValueError(
            f"{schedule.slots} records need {fresh} orders and {late} held back, there are"
            f" {len(orders)} and {len(held_back)}: send fewer a second, or for a shorter time"
        )
    return list(_mixed(kinds, orders[:fresh], held_back[:late], schedule, mix, late_before_ms))


def _mixed(
    kinds: Sequence[Kind],
    orders: Sequence[Event],
    held_back: Sequence[Event],
    schedule: Schedule,
    mix: Mix,
    late_before_ms: int,
) -> Iterator[Sending]:
    on_time, late = iter(orders), iter(held_back)
    scale = _reported(orders, schedule)
    late_scale = _held_back(held_back, late_before_ms)
    chance = random.Random(mix.seed)  # noqa: S311 - a plan that can be repeated, no secret
    sent: list[Sending] = []
    broken = 0
    for slot, kind in enumerate(kinds):
        at_s = slot / schedule.rate
        if kind is Kind.DUPLICATE:
            yield _again(sent, at_s, chance)
        elif kind is Kind.BAD:
            yield _broken(at_s, broken, next(on_time), scale)
            broken += 1
        elif kind is Kind.LATE:
            event = next(late)
            yield _order(at_s, kind, f"order-{event.order_id}", event, late_scale)
        else:
            event = next(on_time)
            order = _order(at_s, kind, f"order-{event.order_id}", event, scale)
            sent.append(order)
            yield order


def _reported(events: Sequence[Event], schedule: Schedule) -> TimeScale:
    start_ms = schedule.start_ms - REPORTING_DELAY_MS
    return TimeScale.over(events, start_ms, start_ms + int(schedule.seconds * 1000))


def _held_back(events: Sequence[Event], late_before_ms: int) -> TimeScale:
    last_ms = late_before_ms - LATENESS_MARGIN_MS
    if not events:
        return TimeScale(0, 1, last_ms, last_ms)
    return TimeScale.over(events, last_ms - LATENESS_SPAN_MS, last_ms)


def _order(at_s: float, kind: Kind, name: str, event: Event, scale: TimeScale) -> Sending:
    event_ms = scale.event_ms(event.event_time_ms)
    body = event.to_json() | {
        "event_time_ms": event_ms,
        "recorded_time_ms": event.event_time_ms,
    }
    value = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    return Sending(at_s, kind, name, event_ms, event.key.encode(), value, event.label)


def _again(sent: Sequence[Sending], at_s: float, chance: random.Random) -> Sending:
    """An order of the last seconds once more, byte for byte."""
    least_s, most_s = REPEAT_WITHIN_S
    wanted_s = at_s - chance.uniform(least_s, most_s)
    first = next((order for order in reversed(sent) if order.at_s <= wanted_s), sent[0])
    return Sending(
        at_s, Kind.DUPLICATE, first.name, first.event_ms, first.key, first.value, first.label
    )


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to break a record so that it names no task, and the reason it must get."""

    reason: DeadLetterReason
    breaks: Callable[[bytes], bytes | None]


def _with_literal(value: bytes) -> bytes:
    body: dict[str, Any] = json.loads(value)
    return json.dumps(body | {"surcharge": float("nan")}).encode()


FAULTS: Final = (
    Fault(DeadLetterReason.MALFORMED_JSON, lambda value: value[: len(value) // 2]),
    Fault(DeadLetterReason.BAD_ENCODING, lambda value: value.replace(b'"zone":"', b'"zone":"\xff')),
    Fault(DeadLetterReason.EMPTY_VALUE, lambda _: b""),
    Fault(DeadLetterReason.TOMBSTONE, lambda _: None),
    Fault(DeadLetterReason.NOT_AN_OBJECT, lambda value: b"[" + value + b"]"),
    Fault(DeadLetterReason.NON_FINITE, _with_literal),
    Fault(DeadLetterReason.DUPLICATE_KEY, lambda value: value[:-1] + b',"order_id":"0"}'),
)


def _broken(at_s: float, number: int, event: Event, scale: TimeScale) -> Sending:
    """An order of which a fault left nothing that names its task; the faults take turns."""
    whole = _order(at_s, Kind.BAD, "", event, scale)
    fault = FAULTS[number % len(FAULTS)]
    assert whole.value is not None
    name = f"bad-{number}-{fault.reason.value}"
    return Sending(at_s, Kind.BAD, name, whole.event_ms, whole.key, fault.breaks(whole.value))


def expected_reason(name: str) -> str:
    """The reason that the dead letter of a BAD record must have."""
    return name.split("-", 2)[2]
