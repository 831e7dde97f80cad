"""Contract: whatever the worker does, every row leaves the batching logic exactly once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.batch_state import BatchPolicy
from operators.batch_types import Chunk, Decision, Degrade, DropLink, FailRow, Refuse, Scored, Send
from operators.batching import BatchLogic
from operators.service_time import ServiceTimes

_BUCKETS = (1, 8, 32, 64)
_SERVICE_US = {1: 500.0, 8: 800.0, 32: 1500.0, 64: 2500.0}


@dataclass
class Simulation:
    """Drives the logic with a clock of its own and a worker that may fail in every way."""

    logic: BatchLogic
    poison: frozenset[tuple[int, int]]
    hangs: bool
    now_ms: float = 1000.0
    at_worker: dict[int, tuple[float, Send]] = field(default_factory=dict)
    left: Counter[tuple[int, int]] = field(default_factory=Counter)
    how: dict[tuple[int, int], tuple[str, float]] = field(default_factory=dict)
    largest_batch: int = 0
    poison_sent_alone: set[tuple[int, int]] = field(default_factory=set)

    def take(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            match decision:
                case Send():
                    rows = sum(len(chunk) for chunk in decision.chunks)
                    self.largest_batch = max(self.largest_batch, rows)
                    done_ms = float("inf") if self.hangs else self.now_ms + 1 + rows / 30
                    self.at_worker[decision.batch_id] = (done_ms, decision)
                case Scored():
                    for chunk, at in zip(decision.chunks, decision.positions, strict=True):
                        assert len(chunk) == len(at)
                        self._leave(chunk, "scored")
                case Degrade():
                    self._leave(decision.chunk, "degraded")
                case Refuse():
                    self._leave(decision.chunk, decision.status)
                case FailRow():
                    assert len(decision.chunk) == 1
                    self._leave(decision.chunk, "failed")
                case DropLink():
                    self.at_worker.clear()

    def _leave(self, chunk: Chunk, how: str) -> None:
        for row in chunk.rows:
            self.left[chunk.frame, row] += 1
            self.how[chunk.frame, row] = (how, self.now_ms)

    def advance(self, to_ms: float) -> None:
        """Let time pass, stopping wherever the worker answers or the logic asked to be woken."""
        while True:
            wake_ms = self.logic.wake_at(self.now_ms)
            done = min(self.at_worker.items(), key=lambda item: item[1][0], default=None)
            candidates = [to_ms]
            if wake_ms is not None:
                candidates.append(max(wake_ms, self.now_ms + 0.01))
            if done is not None:
                candidates.append(done[1][0])
            self.now_ms = max(self.now_ms, min(candidates))
            if done is not None and done[1][0] <= self.now_ms:
                self._answer(done[0], done[1][1])
            else:
                self.take(self.logic.tick(self.now_ms))
            if self.now_ms >= to_ms:
                return

    def _answer(self, batch_id: int, send: Send) -> None:
        del self.at_worker[batch_id]
        rows = [(chunk.frame, row) for chunk in send.chunks for row in chunk.rows]
        if self.poison.intersection(rows):
            if len(rows) == 1:
                self.poison_sent_alone.add(rows[0])
            self.take(self.logic.failed(batch_id, "model_error", "boom", self.now_ms))
        else:
            bucket = ServiceTimes(_BUCKETS).bucket(len(rows))
            self.take(self.logic.reply(batch_id, bucket, 1.0, self.now_ms))

    def drop_link(self) -> None:
        self.at_worker.clear()
        self.take(self.logic.link_down(self.now_ms))

    def connect(self) -> None:
        times = ServiceTimes.from_warm_up(_BUCKETS, _SERVICE_US)
        self.take(self.logic.link_up(times, 64, self.now_ms))


def _policy(*, fallback: bool) -> BatchPolicy:
    return BatchPolicy(
        max_rows=64, margin_ms=1, hop_ms=0.5, stall_floor_ms=40, breaker_open_ms=30,
        max_pending_rows=500, fallback=fallback,
    )  # fmt: skip


frames = st.lists(
    st.tuples(
        st.lists(st.floats(-5, 120), min_size=1, max_size=90),
        st.floats(0, 15),
        st.sampled_from(["", "", "", "drop", "drop+connect", "connect"]),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(frames, st.booleans(), st.booleans(), st.booleans(), st.integers(0, 3))
def test_every_row_leaves_exactly_once(
    script: list[tuple[list[float], float, str]],
    fallback: bool,
    hangs: bool,
    connected: bool,
    poisons: int,
) -> None:
    poison = frozenset((frame, 0) for frame in range(poisons))
    sim = Simulation(BatchLogic(_policy(fallback=fallback)), poison, hangs)
    if connected:
        sim.connect()
    deadlines: dict[tuple[int, int], float] = {}
    for frame, (budgets, pause_ms, event) in enumerate(script):
        rows = [sim.now_ms + budget for budget in budgets]
        deadlines.update({(frame, i): deadline for i, deadline in enumerate(rows)})
        sim.take(sim.logic.add(Chunk(frame, range(len(rows)), rows), sim.now_ms))
        if "drop" in event:
            sim.drop_link()
        if "connect" in event and sim.logic.state.times is None:
            sim.connect()
        sim.advance(sim.now_ms + pause_ms)
    sim.advance(sim.now_ms + 5000)

    assert set(sim.left) == set(deadlines)
    assert set(sim.left.values()) == {1}
    assert sim.logic.pending_rows == 0
    assert sim.largest_batch <= 64
    for row, (how, at_ms) in sim.how.items():
        if how == "failed":
            assert row in poison
            assert row in sim.poison_sent_alone
        if how in ("degraded", "scored") and fallback:
            assert at_ms <= deadlines[row] + 1e-6, "with a rule tier every answer is in time"
        if how == "expired":
            assert at_ms >= deadlines[row], "only a deadline that has passed expires a row"


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 64), st.sets(st.integers(0, 63), max_size=3))
def test_only_the_bad_rows_of_a_failed_batch_fail(rows: int, bad: set[int]) -> None:
    poison = frozenset((0, row) for row in bad if row < rows)
    sim = Simulation(BatchLogic(_policy(fallback=False)), poison, hangs=False)
    sim.connect()
    deadline_ms = sim.now_ms + 60_000
    sim.take(sim.logic.add(Chunk(0, range(rows), [deadline_ms] * rows), sim.now_ms))
    sim.advance(sim.now_ms + 1000)
    failed = {row for row, (how, _) in sim.how.items() if how == "failed"}
    assert failed == poison
    assert sum(how == "scored" for how, _ in sim.how.values()) == rows - len(poison)


@pytest.mark.parametrize("fallback", [True, False])
def test_a_model_that_fails_on_everything_opens_the_breaker(fallback: bool) -> None:
    poison = frozenset((frame, 0) for frame in range(50))
    sim = Simulation(BatchLogic(_policy(fallback=fallback)), poison, hangs=False)
    sim.connect()
    for frame in range(50):
        sim.take(sim.logic.add(Chunk(frame, range(1), [sim.now_ms + 400]), sim.now_ms))
        sim.advance(sim.now_ms + 3)
    sim.advance(sim.now_ms + 1000)
    failed = sum(how == "failed" for how, _ in sim.how.values())
    assert set(sim.left.values()) == {1}
    if fallback:
        assert failed < 15, "while the breaker is open the rule tier answers"


def test_a_full_logic_says_so_and_recovers() -> None:
    sim = Simulation(BatchLogic(_policy(fallback=False)), frozenset(), hangs=False)
    sim.connect()
    for frame in range(10):
        deadlines_ms = [sim.now_ms + 9000] * 60
        sim.take(sim.logic.add(Chunk(frame, range(60), deadlines_ms), sim.now_ms))
    was_full = sim.logic.full
    sim.advance(sim.now_ms + 2000)
    assert (was_full, sim.logic.full, sim.logic.pending_rows) == (True, False, 0)
