"""The scoring job's graph: source -> pack -> decode -> keyed lanes -> sinks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.data_stream import KeyedStream
from pyflink.java_gateway import get_gateway

from jobs.kafka_io import (
    MAX_REQUEST_BYTES,
    frame_source,
    guarded_watermarks,
    pack,
    route,
    sink_frames,
    stop_on,
)
from jobs.lanes import check_lanes, lane_labels
from models.spec import load_spec
from operators.agent_link import WorkerAddress
from operators.batch_state import BatchPolicy
from operators.decode_fn import BYTES, LANE_ROW, DecodeFunction, tag
from operators.dedup import DedupPolicy
from operators.lane_fn import LaneFunction, control_descriptor
from operators.pending import ROUTE_DEAD_LETTERS, ROUTE_FEATURES, ROUTE_RESULTS
from operators.row_decode import DecodePolicy
from operators.scoring_config import ScoringConfig
from tidemill.settings import JobSettings, Settings

RULES_FILE = "rules.json"
_REQUEST_OVERHEAD_BYTES = 65_536  # of the producer, around one largest record


def build_scoring(env: StreamExecutionEnvironment, settings: Settings) -> None:
    """Add the scoring job to ``env``."""
    config = scoring_config(settings)
    orders = env.from_source(
        frame_source(settings, config.topic, config.group, settings.job.start),
        guarded_watermarks(settings),
        "orders",
        BYTES,
    ).uid("orders")
    frames = pack(orders, settings.job.max_rows, settings.job.linger_ms).uid("pack")
    decoded = frames.process(DecodeFunction(config), LANE_ROW).name("decode").uid("decode")
    control = (
        env.from_source(
            frame_source(settings, settings.topics.control, f"{config.group}-control", "earliest"),
            WatermarkStrategy.no_watermarks(),
            "control",
            BYTES,
        )
        .uid("control")
        .set_parallelism(1)
    )
    lanes = (
        _key_by_lane(decoded)
        .connect(control.broadcast(control_descriptor()))
        .process(LaneFunction(config), BYTES)
        .name("lane")
        .uid("lane")
    )
    topics = settings.topics
    sink_frames(route(lanes, ROUTE_RESULTS), settings, topics.results, "results")
    sink_frames(route(lanes, ROUTE_FEATURES), settings, topics.features, "features")
    sink_frames(decoded.get_side_output(tag("late")), settings, settings.late_topic, "late")
    dead = decoded.get_side_output(tag("dead")).union(route(lanes, ROUTE_DEAD_LETTERS))
    sink_frames(dead, settings, settings.dlq_topic, "dlq")
    stop_on(decoded.get_side_output(tag("stop")))


def scoring_config(settings: Settings) -> ScoringConfig:
    """Everything that the operators need, from the settings and the model's folder."""
    job, batch = settings.job, settings.batch
    check_lanes(job.lanes, job.parallelism)
    folder = Path(settings.model.path)
    rules = _load_rules(folder / RULES_FILE)
    return ScoringConfig(
        spec=load_spec(folder),
        rules=rules,
        event=settings.event,
        topic=settings.topics.orders,
        group=settings.kafka.group,
        strict=job.mode == "strict",
        lane_labels=lane_labels(job.lanes, job.max_parallelism, _key_group(job.max_parallelism)),
        decode=DecodePolicy(
            sla_ms=job.sla_ms,
            future_limit_ms=job.future_limit_ms,
            max_value_bytes=job.max_value_bytes,
            dead_letter_bytes=MAX_REQUEST_BYTES - _REQUEST_OVERHEAD_BYTES,
        ),
        batch=BatchPolicy(
            max_rows=batch.max_rows,
            margin_ms=batch.margin_ms,
            hop_ms=batch.hop_ms,
            credits=batch.credits,
            stall_factor=batch.stall_factor,
            stall_floor_ms=batch.stall_floor_ms,
            breaker_failures=batch.breaker_failures,
            breaker_open_ms=batch.breaker_open_ms,
            max_pending_rows=job.max_pending_rows,
            fallback=rules is not None,
        ),
        dedup=_dedup(job),
        worker=WorkerAddress(
            settings.worker.address,
            settings.worker.tls_ca,
            settings.worker.tls_cert,
            settings.worker.tls_key,
        ),
        redis=settings.redis,
        prefix=settings.prefix,
        state_ttl_ms=job.state_ttl_ms,
        dead_letter_limit=job.dead_letter_limit,
        dead_letter_min_rows=job.dead_letter_min_rows,
        log_format=settings.logs.format,
        log_level=settings.logs.level,
    )


def _key_by_lane(decoded: DataStream) -> KeyedStream:
    """Key in the JVM by field 0 of `Row(lane, frame)`; the lane function gets field 1.

    A Python key selector would cost another crossing a frame.
    """
    selector = get_gateway().jvm.org.apache.flink.streaming.api.functions.python.KeyByKeySelector()
    key_type = Types.ROW([Types.INT()]).get_java_type_info()
    return KeyedStream(decoded._j_data_stream.keyBy(selector, key_type), BYTES, decoded)


def _key_group(max_parallelism: int) -> Any:
    """Flink's own key group of a lane label, asked of the JVM."""
    jvm = get_gateway().jvm
    assignment = jvm.org.apache.flink.runtime.state.KeyGroupRangeAssignment

    def key_group(label: int) -> int:
        row = jvm.org.apache.flink.types.Row(1)
        row.setField(0, label)
        group: int = assignment.assignToKeyGroup(row, max_parallelism)
        return group

    return key_group


def _dedup(job: JobSettings) -> DedupPolicy | None:
    return DedupPolicy(job.dedup_window_ms, job.dedup_rows) if job.dedup_window_ms else None


def _load_rules(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else None
