"""Deadline batching: which rows go to the worker when, and which are answered by another tier.

Pure: no clock, no socket, no Flink.  Events go in (`add`, `reply`, `failed`, `link_up`,
`link_down`, `tick`), decisions come out, and every row leaves exactly once by exactly one of
`Scored`, `Degrade`, `Refuse` or `FailRow`.  The rules, with their measurements in docs/architecture.md:

- work-conserving: an idle worker gets what is there; while it works, rows gather;
- a row's deadline is set when it enters and never moved;
- a row that the batch about to be formed cannot save goes to the rule tier at once, because a
  batch shrunk to rescue it would cost the throughput that saves the others;
- a row in flight is answered by the rule tier when its deadline comes near, whatever became of
  the worker; a worker without progress is dropped, never waited for;
- a failed batch is bisected, breadth first, until the bad row stands alone.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from operators.batch_state import BatchPolicy, BatchState, InFlight
from operators.batch_types import (
    Chunk,
    Decision,
    Degrade,
    DropLink,
    FailRow,
    Refuse,
    Scored,
    Send,
    halve,
)
from operators.breaker import Breaker
from operators.service_time import ServiceTimes


class BatchLogic:
    """Turns events into decisions; see the module's head for the rules."""

    def __init__(self, policy: BatchPolicy, state: BatchState | None = None) -> None:
        self.policy = policy
        self.state = state if state is not None else BatchState()
        self.breaker = Breaker(policy.breaker_failures, policy.breaker_open_ms)

    @property
    def pending_rows(self) -> int:
        """Rows that entered and have not left."""
        waiting = sum(len(chunk) for b in self.state.in_flight.values() for chunk, _ in b.parts)
        return self.state.queued_rows + waiting

    @property
    def full(self) -> bool:
        """Whether the lane must stop taking records until rows have left."""
        return self.pending_rows >= self.policy.max_pending_rows

    def add(self, chunk: Chunk, now_ms: float) -> list[Decision]:
        """Take rows of a new frame; what is past its deadline already is refused as expired."""
        expired, alive = chunk.divide(now_ms)
        out: list[Decision] = []
        if expired is not None:
            out.append(Refuse(expired, "expired", "deadline_passed"))
        if alive is not None:
            self._enqueue(alive)
        return out + self.tick(now_ms)

    def link_up(self, times: ServiceTimes, worker_rows: int, now_ms: float) -> list[Decision]:
        """A worker said hello: its buckets' service times and its largest batch."""
        self.state.times, self.state.worker_rows = times, worker_rows
        return self.tick(now_ms)

    def link_down(self, now_ms: float) -> list[Decision]:
        """The worker is gone: rows at it are answered by the next tier, or wait for its return."""
        state = self.state
        if state.times is None and not state.in_flight:
            return []
        state.times = None
        lost = [chunk for batch in state.in_flight.values() for chunk, _ in batch.parts]
        if state.in_flight:
            self.breaker.failure(now_ms)
        state.in_flight.clear()
        state.groups.clear()
        lost.extend(self._drain_isolated())
        for chunk in lost:
            chunk.group = None
            self._enqueue(chunk)
        return self.tick(now_ms)

    def drain(self, now_ms: float) -> list[Decision]:
        """The worker takes no new batch; what it has it will answer."""
        self.state.times = None
        return self.tick(now_ms)

    def reply(self, batch_id: int, bucket: int, service_ms: float, now_ms: float) -> list[Decision]:
        """The worker answered a batch; an unknown id (dropped before) is ignored."""
        batch = self.state.in_flight.pop(batch_id, None)
        if batch is None:
            return []
        self.state.busy_since_ms = now_ms
        if self.state.times is not None:
            self.state.times.observe(bucket, service_ms)
        self._settle(batch, now_ms, failed=False)
        out: list[Decision] = []
        if batch.parts:
            chunks = tuple(chunk for chunk, _ in batch.parts)
            out.append(Scored(batch_id, chunks, tuple(at for _, at in batch.parts)))
        return out + self.tick(now_ms)

    def failed(self, batch_id: int, reason: str, message: str, now_ms: float) -> list[Decision]:
        """The model raised on a batch: bisect it, or give the one row left an error."""
        batch = self.state.in_flight.pop(batch_id, None)
        if batch is None:
            return []
        self.state.busy_since_ms = now_ms
        out: list[Decision] = []
        if batch.rows == 1:
            out.extend(FailRow(chunk, reason, message) for chunk, _ in batch.parts)
            self._settle(batch, now_ms, failed=True)
        else:
            self._bisect(batch, now_ms)
        return out + self.tick(now_ms)

    def tick(self, now_ms: float) -> list[Decision]:
        """What is due at ``now_ms``: stalls, rescues, rows that cannot be saved, batches."""
        out: list[Decision] = []
        if self._stalled(now_ms):
            out.append(DropLink("stalled"))
            return out + self.link_down(now_ms)
        if self.policy.fallback:
            self._rescue(now_ms, out)
        self._shed(now_ms, out)
        self._dispatch(now_ms, out)
        return out

    def wake_at(self, now_ms: float) -> float | None:
        """When `tick` has something to do although nothing happens; None = never."""
        state = self.state
        times: list[float] = []
        for batch in state.in_flight.values():
            times.append(self._stall_at(batch))
            if batch.parts and self.policy.fallback:
                times.append(batch.first_deadline_ms - self._rescue_ms)
        if state.queue:
            times.append(state.queue[0][0] - self._needed_ms(now_ms))
        times.extend(
            chunk.first_deadline_ms - self._rescue_ms for part in state.isolated for chunk in part
        )
        if (state.queue or state.isolated) and now_ms < self.breaker.open_until_ms:
            times.append(self.breaker.open_until_ms)
        return min(times, default=None)

    @property
    def _rescue_ms(self) -> float:
        return self.policy.margin_ms + self.policy.hop_ms

    def _enqueue(self, chunk: Chunk) -> None:
        self.state.next_id += 1
        insort(self.state.queue, (chunk.first_deadline_ms, self.state.next_id, chunk))
        self.state.queued_rows += len(chunk)

    def _limit(self) -> int:
        return min(self.policy.max_rows, self.state.worker_rows or self.policy.max_rows)

    def _busy_ms(self, now_ms: float) -> float:
        """Time until the worker is through with what it has."""
        in_flight = self.state.in_flight
        if not in_flight:
            return 0.0
        since = min(batch.sent_ms for batch in in_flight.values())
        started_ms = max(since, self.state.busy_since_ms)
        return max(0.0, started_ms + sum(b.expected_ms for b in in_flight.values()) - now_ms)

    def _needed_ms(self, now_ms: float) -> float:
        """Time from now until the batch about to be formed would be answered."""
        if self.state.times is None:
            return self._rescue_ms
        rows = min(max(self.state.queued_rows, 1), self._limit())
        return self._busy_ms(now_ms) + self.state.times.expected_ms(rows) + self._rescue_ms

    def _stall_at(self, batch: InFlight) -> float:
        ahead_ms = sum(b.expected_ms for b in self.state.in_flight.values())
        patience_ms = max(self.policy.stall_floor_ms, self.policy.stall_factor * ahead_ms)
        return max(batch.sent_ms, self.state.busy_since_ms) + patience_ms

    def _stalled(self, now_ms: float) -> bool:
        return any(now_ms >= self._stall_at(batch) for batch in self.state.in_flight.values())

    def _rescue(self, now_ms: float, out: list[Decision]) -> None:
        for batch in self.state.in_flight.values():
            if batch.parts and batch.first_deadline_ms - self._rescue_ms <= now_ms:
                self._rescue_rows(batch, now_ms + self._rescue_ms, out)

    def _rescue_rows(self, batch: InFlight, before_ms: float, out: list[Decision]) -> None:
        kept: list[tuple[Chunk, Sequence[int]]] = []
        for chunk, at in batch.parts:
            place = dict(zip(chunk.rows, at, strict=True))
            urgent, rest = chunk.divide(before_ms + 1e-6)
            if urgent is not None:
                out.append(Degrade(urgent, "worker_late"))
            if rest is not None:
                kept.append((rest, [place[row] for row in rest.rows]))
        batch.parts = kept
        batch.first_deadline_ms = min((c.first_deadline_ms for c, _ in kept), default=float("inf"))

    def _available(self, now_ms: float) -> bool:
        if self.state.times is None:
            return False
        return self.breaker.allows(now_ms, len(self.state.in_flight))

    def _shed(self, now_ms: float, out: list[Decision]) -> None:
        state = self.state
        available = self._available(now_ms)
        if self.policy.fallback:
            if not available:
                self._degrade_all(out)
                return
            self._shed_isolated(now_ms, out)
        needed_ms = self._needed_ms(now_ms) if available else self._rescue_ms
        before_ms = now_ms + needed_ms
        while state.queue and state.queue[0][0] < before_ms:
            _, _, chunk = state.queue.pop(0)
            state.queued_rows -= len(chunk)
            urgent, rest = chunk.divide(before_ms)
            if urgent is not None:
                out.append(self._give_up(urgent, available))
            if rest is not None:
                self._enqueue(rest)

    def _degrade_all(self, out: list[Decision]) -> None:
        state = self.state
        reason = "worker_down" if state.times is None else "breaker_open"
        waiting = [chunk for _, _, chunk in state.queue] + self._drain_isolated()
        out.extend(Degrade(chunk, reason) for chunk in waiting)
        state.queue.clear()
        state.queued_rows = 0

    def _shed_isolated(self, now_ms: float, out: list[Decision]) -> None:
        before_ms = now_ms + self._rescue_ms
        for _ in range(len(self.state.isolated)):
            chunks = self.state.isolated.popleft()
            kept: list[Chunk] = []
            for chunk in chunks:
                urgent, rest = chunk.divide(before_ms)
                if urgent is not None:
                    out.append(Degrade(urgent, "deadline_near"))
                    self.state.queued_rows -= len(urgent)
                if rest is not None:
                    kept.append(rest)
            if kept:
                self.state.isolated.append(tuple(kept))
            else:
                self._drop_part(chunks, now_ms)

    def _drain_isolated(self) -> list[Chunk]:
        state = self.state
        chunks = [chunk for part in state.isolated for chunk in part]
        state.queued_rows -= sum(len(chunk) for chunk in chunks)
        state.isolated.clear()
        state.groups.clear()
        return chunks

    def _give_up(self, chunk: Chunk, available: bool) -> Decision:
        if self.policy.fallback:
            return Degrade(chunk, "deadline_near")
        return Refuse(chunk, "rejected", "overloaded" if available else "worker_down")

    def _dispatch(self, now_ms: float, out: list[Decision]) -> None:
        state = self.state
        while self._available(now_ms) and len(state.in_flight) < self.policy.credits:
            if state.isolated:
                chunks = state.isolated.popleft()
                state.queued_rows -= sum(len(chunk) for chunk in chunks)
                self._send(chunks, now_ms, out)
            elif state.queue and (not state.in_flight or state.queued_rows >= self._limit()):
                self._send(self._take(self._limit()), now_ms, out)
            else:
                return

    def _take(self, limit: int) -> tuple[Chunk, ...]:
        state, chunks, room = self.state, [], limit
        while state.queue and room:
            _, _, chunk = state.queue.pop(0)
            state.queued_rows -= len(chunk)
            if len(chunk) > room:
                chunk, rest = chunk.split(room)
                self._enqueue(rest)
            chunks.append(chunk)
            room -= len(chunk)
        return tuple(chunks)

    def _send(self, chunks: tuple[Chunk, ...], now_ms: float, out: list[Decision]) -> None:
        state = self.state
        if state.times is None:
            raise RuntimeError("a batch was formed without a worker; `_available` was not asked")
        rows = sum(len(chunk) for chunk in chunks)
        parts: list[tuple[Chunk, Sequence[int]]] = []
        at = 0
        for chunk in chunks:
            parts.append((chunk, range(at, at + len(chunk))))
            at += len(chunk)
        first_ms = min(chunk.first_deadline_ms for chunk in chunks)
        if not state.in_flight:
            state.busy_since_ms = now_ms
        state.next_id += 1
        expected_ms = state.times.expected_ms(rows)
        state.in_flight[state.next_id] = InFlight(
            chunks, parts, rows, now_ms, expected_ms, first_ms
        )
        out.append(Send(state.next_id, chunks, first_ms - now_ms))

    def _bisect(self, batch: InFlight, now_ms: float) -> None:
        """Halve the rows that still wait; each half goes alone, the group's tally goes on."""
        group = batch.chunks[0].group
        if group is None or group not in self.state.groups:
            self.state.next_id += 1
            group = self.state.next_id
            self.state.groups[group] = [0, 1]
        tally = self.state.groups[group]
        tally[1] -= 1
        for half in halve([chunk for chunk, _ in batch.parts], group):
            self.state.isolated.append(half)
            self.state.queued_rows += sum(len(chunk) for chunk in half)
            tally[1] += 1
        self._close_group(group, now_ms)

    def _settle(self, batch: InFlight, now_ms: float, *, failed: bool) -> None:
        """Tell the breaker: a group counts as failed only if none of its rows was scored."""
        group = batch.chunks[0].group
        if group is None or group not in self.state.groups:
            self._tell_breaker(scored=not failed, now_ms=now_ms)
            return
        tally = self.state.groups[group]
        tally[0] += 0 if failed else 1
        tally[1] -= 1
        self._close_group(group, now_ms)

    def _drop_part(self, chunks: tuple[Chunk, ...], now_ms: float) -> None:
        group = chunks[0].group
        if group is not None and group in self.state.groups:
            self.state.groups[group][1] -= 1
            self._close_group(group, now_ms)

    def _close_group(self, group: int, now_ms: float) -> None:
        scored, open_parts = self.state.groups[group]
        if open_parts == 0:
            del self.state.groups[group]
            self._tell_breaker(scored=scored > 0, now_ms=now_ms)

    def _tell_breaker(self, *, scored: bool, now_ms: float) -> None:
        if scored:
            self.breaker.success(now_ms)
        else:
            self.breaker.failure(now_ms)
