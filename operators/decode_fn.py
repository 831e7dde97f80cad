"""Flink adapter of `decode.py`: batch frames in, lane frames out, late and dead letters aside."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from pyflink.common import Row, Types
from pyflink.datastream import OutputTag, ProcessFunction

from operators.dead_letter import DeadLetterGuard, GuardPolicy
from operators.decode import Decoder
from operators.errors import StopJob
from operators.flink_metrics import CounterExport
from operators.frames import BatchFrame
from operators.lateness import LATE
from operators.mapping import EventMapping
from operators.schema import FeatureSchema
from operators.scoring_config import ScoringConfig
from tidemill.contracts import DeadLetterReason

BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
LANE_ROW = Types.ROW([Types.INT(), BYTES])


def tag(name: str) -> OutputTag:
    """The side output ``name``: late, dead, features or stop."""
    return OutputTag(name, BYTES)


class DecodeFunction(ProcessFunction):
    """One call a batch frame.  Emits `Row(lane, lane frame)`; raises nothing for bad records.

    When the share of dead letters is over its limit, a message goes to the STOP output, which ends
    the job: an exception here would only restart it.
    """

    def __init__(self, config: ScoringConfig) -> None:
        self._config = config

    def open(self, runtime_context: Any) -> None:
        config = self._config
        schema = FeatureSchema.from_spec(config.spec)
        mapping = EventMapping.from_settings(config.event, schema)
        self._decoder = Decoder(schema, mapping, config.decode, config.topic, config.group)
        self._guard = DeadLetterGuard(
            GuardPolicy(config.dead_letter_limit, config.dead_letter_min_rows)
        )
        self._counters = CounterExport(runtime_context.get_metrics_group(), "decode")
        self._counters.add({"late_rows": 0} | _by_reason(dict.fromkeys(DeadLetterReason, 0)))
        self._tags = (tag("late"), tag("dead"), tag("stop"))
        self._stopped = False

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        late, dead, stop = self._tags
        frame = BatchFrame.decode(bytes(value))
        decoded = self._decoder.decode(frame)
        if decoded.late_out is not None:
            yield late, decoded.late_out
        if decoded.dead_out is not None:
            yield dead, decoded.dead_out
        if decoded.lane_frame is not None:
            lane = self._config.lane_of(frame.partition)
            yield Row(lane, decoded.lane_frame.encode())
        now_ms = int(time.time() * 1000)
        dead_counts = decoded.dead_reasons
        self._counters.add({"rows": len(frame), "frames": 1} | _by_reason(dead_counts))
        if late_rows := decoded.counts.get(LATE):
            self._counters.add({"late_rows": late_rows})
        if not self._stopped:
            try:
                self._guard.observe(len(frame), dead_counts, now_ms)
            except StopJob as error:
                self._stopped = True
                yield stop, str(error).encode()


def _by_reason(counts: Mapping[str, int]) -> dict[str, int]:
    return {f"dead_letters.reason.{reason}": rows for reason, rows in counts.items()}
