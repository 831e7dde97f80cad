"""Sources and sinks of the jobs: whole Kafka records as frames, through the bridge's Java classes.

PyFlink's own Kafka classes reach a record's value only; the bridge's reach key, headers, partition,
offset and timestamp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyflink.common import WatermarkStrategy
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
)
from pyflink.java_gateway import get_gateway

from jobs.start_offsets import start_offsets
from operators.decode_fn import BYTES
from tidemill.settings import Settings

_DISCOVERY_MS = 30_000
# A dead letter is a largest record and its headers; the topics are made for as much.
MAX_REQUEST_BYTES = 8 * 1024 * 1024
# Callers are answered through Redis, so the topics may wait a little: large requests cost the broker
# about a third less a record than the client's 16 KiB.
_SINK_LINGER_MS = 5
_SINK_BATCH_BYTES = 262_144
# Long enough for a checkpoint that waits and a restart; under the broker's default limit of 15 min.
_TRANSACTION_TIMEOUT_MS = 600_000


def bridge() -> Any:
    """The bridge's Java package.  Raises RuntimeError if its jar is not on the class path."""
    package = get_gateway().jvm.io.tidemill.bridge
    if type(package.RecordFrames).__name__ != "JavaClass":
        raise RuntimeError(
            "the bridge jar is not in the cluster's lib folder; `tidemill doctor` says which"
        )
    return package


def frame_source(settings: Settings, topic: str, group: str, start: str) -> KafkaSource:
    """Each record of ``topic`` as one record frame; ``start``: committed, earliest or latest."""
    offsets = start_offsets(settings.kafka, topic, group, start)
    builder = (
        KafkaSource.builder()
        .set_bootstrap_servers(settings.kafka.bootstrap)
        .set_topics(topic)
        .set_group_id(group)
        .set_starting_offsets(_exactly(topic, offsets))
        .set_property("partition.discovery.interval.ms", str(_DISCOVERY_MS))
    )
    if settings.job.mode == "strict":
        builder.set_property("isolation.level", "read_committed")
    for name, value in settings.kafka.java_properties().items():
        builder.set_property(name, value)
    builder._j_builder.setDeserializer(bridge().RecordFrames())
    return builder.build()


def _exactly(topic: str, offsets: Mapping[int, int]) -> KafkaOffsetsInitializer:
    """Begin there and nowhere else: an offset that is gone is an error, not a jump."""
    where = {KafkaTopicPartition(topic, number): at for number, at in offsets.items()}
    return KafkaOffsetsInitializer.offsets(where, KafkaOffsetResetStrategy.NONE)


def guarded_watermarks(settings: Settings) -> WatermarkStrategy:
    """Bounded out-of-orderness per partition; a wrong clock's future never moves it."""
    job = settings.job
    return WatermarkStrategy(
        bridge().GuardedWatermarks.strategy(
            job.out_of_orderness_ms, job.future_limit_ms, job.idle_ms
        )
    )


def pack(stream: DataStream, max_rows: int, linger_ms: int) -> DataStream:
    """Record frames gathered into batch frames, one Kafka partition a frame."""
    packer = bridge().BatchPacker(max_rows, linger_ms)
    return DataStream(stream._j_data_stream.transform("pack", BYTES.get_java_type_info(), packer))


def route(stream: DataStream, number: int) -> DataStream:
    """The out frames of ``stream`` with this route."""
    return DataStream(stream._j_data_stream.filter(bridge().FrameRoute(number)))


def sink_frames(stream: DataStream, settings: Settings, topic: str, name: str) -> None:
    """Out frames to ``topic``, record by record; exactly once in strict mode."""
    strict = settings.job.mode == "strict"
    guarantee = DeliveryGuarantee.EXACTLY_ONCE if strict else DeliveryGuarantee.AT_LEAST_ONCE
    records = (
        DataStream(
            stream._j_data_stream.flatMap(bridge().FrameUnpacker()).returns(
                BYTES.get_java_type_info()
            )
        )
        .uid(f"unpack-{name}")
        .name(f"unpack {name}")
    )
    builder = (
        get_gateway()
        .jvm.org.apache.flink.connector.kafka.sink.KafkaSink.builder()
        .setBootstrapServers(settings.kafka.bootstrap)
        .setRecordSerializer(bridge().FrameSerializer(topic))
        .setDeliveryGuarantee(guarantee._to_j_delivery_guarantee())
        .setTransactionalIdPrefix(f"{settings.prefix}-{settings.kafka.group}-{name}")
        .setProperty("transaction.timeout.ms", str(_TRANSACTION_TIMEOUT_MS))
        .setProperty("linger.ms", str(_SINK_LINGER_MS))
        .setProperty("batch.size", str(_SINK_BATCH_BYTES))
        .setProperty("max.request.size", str(MAX_REQUEST_BYTES))
    )
    for key, value in settings.kafka.java_properties().items():
        builder = builder.setProperty(key, value)
    records.sink_to(KafkaSink(builder.build())).name(f"{name} sink").uid(f"sink-{name}")


def stop_on(stream: DataStream) -> None:
    """A message on ``stream`` ends the job for good; nothing is written anywhere.

    In a task of its own: an exception that passes a Python operator becomes text on its way, and
    the job would restart for ever.
    """
    stopped = (
        DataStream(
            stream._j_data_stream.flatMap(bridge().JobStopper()).returns(BYTES.get_java_type_info())
        )
        .uid("stopper")
        .name("stopper")
        .start_new_chain()
    )
    sink = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
    stopped._j_data_stream.sinkTo(sink).uid("stopper-sink").name("stopper sink")


def environment(settings: Settings) -> StreamExecutionEnvironment:
    """The execution environment with the job's checkpoints, watermarks and parallelism."""
    job = settings.job
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(job.parallelism)
    env.set_max_parallelism(job.max_parallelism)
    # What moves are frames: flushing each costs little and saves a flusher thread's millisecond.
    env.set_buffer_timeout(0)
    # No operator changes the bytes it got, so chained operators need no copies of them.
    env.get_config().enable_object_reuse()
    env.get_config().set_auto_watermark_interval(job.watermark_interval_ms)
    env.enable_checkpointing(job.checkpoint_interval_ms)
    checkpoints = env.get_checkpoint_config()
    checkpoints.set_checkpoint_timeout(job.checkpoint_timeout_ms)
    checkpoints.set_tolerable_checkpoint_failure_number(job.tolerable_checkpoint_failures)
    checkpoints.enable_unaligned_checkpoints()
    return env
