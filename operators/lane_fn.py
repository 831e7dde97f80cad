"""Flink adapter of the lane: keyed state around the agent, which does the work.

A frame is in keyed state before `process_element` returns and leaves it when all its rows are
answered: Python has no snapshot hook, so this is what makes a crash lose nothing.  State of raw
bytes must be PICKLED_BYTE_ARRAY: with a primitive array the first checkpoint that has rows in it
fails, and the job restarts for ever.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from typing import Any

from pyflink.common import Time, Types
from pyflink.datastream import KeyedBroadcastProcessFunction
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig

from drift.control import ControlState, Outcome
from models.logs import start_logging
from operators.agent import Agent
from operators.answers import ModelIdentity
from operators.dedup import DedupWindow
from operators.delivery import Deliverer
from operators.flink_metrics import EXPORT_EVERY_MS, CounterExport
from operators.frames import decode_record
from operators.lane import Lane
from operators.pending import Finisher, PendingFrame
from operators.records import LaneFrame
from operators.redis_writer import RedisWriter
from operators.rules import RuleEngine
from operators.scoring_config import ScoringConfig
from operators.scoring_stats import ScoringStats

log = logging.getLogger(__name__)

COLLECT_EVERY_MS = 2
_CONTROL_KEY = "control"


def control_descriptor() -> MapStateDescriptor:
    """The broadcast state; its name is its identity, also for the job that makes the broadcast."""
    return MapStateDescriptor("control", Types.STRING(), Types.PICKLED_BYTE_ARRAY())


def pending_descriptor(ttl_ms: int) -> MapStateDescriptor:
    """Frames that are not finished, by id."""
    descriptor = MapStateDescriptor("pending", Types.LONG(), Types.PICKLED_BYTE_ARRAY())
    descriptor.enable_time_to_live(_ttl(ttl_ms))
    return descriptor


def seen_descriptor(slot: int, ttl_ms: int) -> ListStateDescriptor:
    """Digests of the tasks seen in one slot of the duplicates' window."""
    descriptor = ListStateDescriptor(f"seen-{slot}", Types.PICKLED_BYTE_ARRAY())
    descriptor.enable_time_to_live(_ttl(ttl_ms))
    return descriptor


def _ttl(ttl_ms: int) -> StateTtlConfig:
    # The default visibility would scan for expired entries at each read.
    return (
        StateTtlConfig.new_builder(Time.milliseconds(ttl_ms))
        .set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)
        .set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)
        .build()
    )


class LaneFunction(KeyedBroadcastProcessFunction):
    """One output of out frames, told apart by their route (`pending.ROUTE_...`)."""

    def __init__(self, config: ScoringConfig) -> None:
        self._config = config
        self._started: list[Agent] = []

    def open(self, runtime_context: Any) -> None:
        config = self._config
        sys.setswitchinterval(config.switch_interval_s)
        # Python's sleep does not see Java's interrupt: without a look at it, a task whose lanes are
        # full could not be cancelled before its rows' deadlines.
        from pemja import findClass  # there only inside a TaskManager's JVM

        self._thread = findClass("java.lang.Thread")
        start_logging(config.log_format, config.log_level)
        self._schema_id = config.spec.schema_id  # a hash of all features: not once a frame
        ttl_ms = config.state_ttl_ms
        self._pending = runtime_context.get_map_state(pending_descriptor(ttl_ms))
        self._seen = [
            runtime_context.get_list_state(seen_descriptor(slot, ttl_ms))
            for slot in range(config.dedup.slots if config.dedup is not None else 0)
        ]
        self._control_descriptor = control_descriptor()
        self._control: ControlState | None = None
        self._control_counts = {_control_count(outcome): 0 for outcome in Outcome}
        self._lanes: dict[Any, Lane] = {}
        self._numbers = 0
        self._counters = CounterExport(runtime_context.get_metrics_group(), "scoring")
        self._export_at_ms = 0
        self._stats = ScoringStats()
        self._agent = self._make_agent()
        self._started.append(self._agent)
        self._agent.start()

    def close(self) -> None:
        # Also called after an `open` that failed: an error here would end the whole TaskManager.
        while self._started:
            self._started.pop().stop()

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        now_ms = int(time.time() * 1000)
        lane = self._lane(ctx, now_ms)
        encoded = bytes(value)
        received = LaneFrame.decode(encoded)
        frame, slot, chunk = lane.admit(received, now_ms)
        if chunk:
            self._remember(lane, slot, chunk)
        if frame is not None:
            frame_id = lane.take_id()
            self._pending.put(frame_id, encoded if frame is received else frame.encode())
            self._put(lane, frame_id, frame)
            self._set_timer(lane, ctx, now_ms)
        yield from self._collect(lane)
        while self._agent.full:
            if self._thread.currentThread().isInterrupted():
                raise InterruptedError("the task is cancelled while its lanes are full")
            time.sleep(0.0005)
            yield from self._collect(lane)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        now_ms = int(time.time() * 1000)
        lane = self._lane(ctx, now_ms)
        if timestamp == self._export_at_ms:
            self._export(ctx, now_ms)
        else:
            lane.timer_set = False
        yield from self._collect(lane)
        if lane.ids:
            self._set_timer(lane, ctx, now_ms)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        state = ctx.get_broadcast_state(self._control_descriptor)
        control = self._load_control(state)
        outcome = control.apply(decode_record(bytes(value)).value)
        if outcome.message:
            log.warning("%s", outcome.message, extra={"control_version": control.version})
        self._control_counts[_control_count(outcome.outcome)] += 1
        state.put(_CONTROL_KEY, control.snapshot())
        return iter(())

    def _make_agent(self) -> Agent:
        config = self._config
        spec = config.spec
        names = tuple(output.name for output in spec.outputs)
        model = ModelIdentity(spec.name, spec.version, names)
        writer = None if config.strict else RedisWriter(config.redis, config.prefix)
        self._writer = writer
        rules = None
        if config.rules is not None:
            rules = RuleEngine.from_dict(config.rules, spec.features, names)
        finisher = Finisher(
            model, config.topic, config.group, spec.schema_id, len(spec.features),
            config.decode.dead_letter_bytes,
        )  # fmt: skip
        deliverer = Deliverer(model, writer, self._stats, lambda: time.time() * 1000)
        return Agent(config.batch, config.worker, rules, deliverer, finisher, self._stats)

    def _lane(self, ctx: Any, now_ms: int) -> Lane:
        """The lane of the current key; at its first use it takes over the state it left behind."""
        key = ctx.get_current_key()
        lane = self._lanes.get(key)
        if lane is None:
            self._load_control(ctx.get_broadcast_state(self._control_descriptor))
            lane = self._lanes[key] = Lane(key, self._restore_seen(now_ms))
            entries = {int(frame_id): bytes(data) for frame_id, data in self._pending.items()}
            for frame_id in lane.restore(entries):
                self._put(lane, frame_id, LaneFrame.decode(entries[frame_id]))
            if not self._export_at_ms:
                self._export(ctx, now_ms)
        return lane

    def _restore_seen(self, now_ms: int) -> DedupWindow | None:
        policy = self._config.dedup
        if policy is None:
            return None
        window = DedupWindow(policy)
        chunks = {slot: [bytes(c) for c in state.get()] for slot, state in enumerate(self._seen)}
        window.restore(chunks, now_ms)
        return window

    def _load_control(self, state: Any) -> ControlState:
        if self._control is None:
            saved = state.get(_CONTROL_KEY)
            self._control = ControlState() if saved is None else ControlState.restore(bytes(saved))
        return self._control

    def _remember(self, lane: Lane, slot: int, chunk: bytes) -> None:
        state = self._seen[slot]
        if lane.seen is not None and lane.seen.starts_slot(slot):
            state.clear()
        state.add(chunk)

    def _put(self, lane: Lane, frame_id: int, frame: LaneFrame) -> None:
        frame.require_schema(self._schema_id)
        control = self._control
        version, frozen = (0, ()) if control is None else (control.version, control.frozen)
        self._numbers += 1
        self._agent.put(
            PendingFrame(lane.key, frame_id, self._numbers, frame, version, tuple(frozen))
        )

    def _set_timer(self, lane: Lane, ctx: Any, now_ms: int) -> None:
        if lane.timer_set:
            return
        lane.timer_set = True
        at_ms = now_ms + COLLECT_EVERY_MS
        if at_ms == self._export_at_ms:  # Flink keeps one timer a key and time
            at_ms += 1
        ctx.timer_service().register_processing_time_timer(at_ms)

    def _collect(self, lane: Lane) -> Iterator[Any]:
        """Emit what is finished in this lane and clear its state; other lanes' wait for their turn."""
        if self._agent.error is not None:
            raise RuntimeError("the scoring agent ended") from self._agent.error
        finished = self._agent.finished
        while finished:
            frame = finished.popleft()
            self._lanes[frame.lane].ready.append(frame)
        for frame in lane.take_ready():
            self._pending.remove(frame.id)
            yield from frame.out

    def _export(self, ctx: Any, now_ms: int) -> None:
        """Show the counts, and again in a second: also when no record comes."""
        totals = self._stats.totals()
        totals.update(self._control_counts)
        totals["duplicate_rows"] = sum(lane.duplicates for lane in self._lanes.values())
        totals["pending_rows"] = self._agent.entered_rows - self._agent.left_rows
        totals["refused_callbacks"] = self._writer.refused_callbacks if self._writer else 0
        self._counters.totals(totals)
        self._export_at_ms = now_ms + EXPORT_EVERY_MS
        ctx.timer_service().register_processing_time_timer(self._export_at_ms)


def _control_count(outcome: Outcome) -> str:
    return f"control_messages.outcome.{outcome.value.removeprefix('control_')}"
