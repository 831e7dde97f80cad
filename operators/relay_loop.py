"""The relay: reads committed results from Kafka, writes Redis, then commits its offsets.

While Redis is away it holds one batch, stays in its consumer group (paused, but polling) and tries
again after jittered pauses.  A consumer that stops moving although there is work ends the relay
with `Stuck`: a restart is the cure.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Final, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from operators.redis_writer import RedisWriter
from operators.relay import Headers, Held, RelayPolicy, Verdict, Watchdog, decide
from operators.relay_metrics import RelayMetrics
from tidemill.errors import RedisAway, Stuck, Unavailable
from tidemill.settings import Settings

_LOG: Final = logging.getLogger("tidemill.relay")
_BATCH_ROWS: Final = 256
_POLL_S: Final = 0.05
_QUERY_S: Final = 5.0
STUCK_AFTER_MS: Final = 60_000
LAG_EVERY_MS: Final = 5000


class Relay:
    """One member of the relay's group; `run` is its whole life."""

    def __init__(
        self,
        settings: Settings,
        metrics: RelayMetrics,
        *,
        writer: RedisWriter | None = None,
        stuck_after_ms: int = STUCK_AFTER_MS,
        lag_every_ms: int = LAG_EVERY_MS,
    ) -> None:
        self._topic = settings.topics.results
        self._policy = RelayPolicy(settings.job.mode == "strict", settings.redis.ttl_s * 1000)
        self._metrics = metrics
        self._writer = writer or RedisWriter(settings.redis, settings.prefix)
        self._held = Held()
        self._blocked = False  # Redis did not take what is held
        self._watchdog = Watchdog(stuck_after_ms)
        self._lag_every_ms = lag_every_ms
        self._next_lag_ms = 0
        self._invalid: list[tuple[int, int]] = []
        self._refused_callbacks = 0
        self._group = relay_group(settings)
        config = settings.kafka.consumer_config(self._group, reset="earliest", read_committed=True)
        # the end of a partition is told, since control records of transactions are not
        self._consumer = Consumer(config | {"enable.partition.eof": "true"}, logger=_LOG)

    def run(self, stop: Callable[[], bool]) -> None:
        """Relay until ``stop()``; raises Stuck, or Unavailable if Kafka refuses for good."""
        self._consumer.subscribe(
            [self._topic],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )
        what = "everything" if self._policy.strict else "what the job left"
        _LOG.info("relaying %s of %s as group %s", what, self._topic, self._group)
        try:
            while not stop():
                self._step(_now_ms())
        finally:
            self._commit(wait=True)
            self._consumer.close()
            self._writer.close()

    def _step(self, now_ms: int) -> None:
        first = self._consumer.poll(_POLL_S)
        if first is not None:
            # consume() alone would wait for a full batch or its whole time-out
            for message in (first, *self._consumer.consume(_BATCH_ROWS - 1, 0)):
                self._take(message, now_ms)
        if self._writer.ready(now_ms):
            self._deliver()
        self._commit(wait=False)
        if now_ms >= self._next_lag_ms:
            self._next_lag_ms = now_ms + self._lag_every_ms
            self._watch(now_ms)

    def _take(self, message: Message, now_ms: int) -> None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None:
            self._on_error(error, message)
            return
        if partition is None or offset is None:
            return
        decision = decide(self._policy, message.value(), _headers(message), now_ms)
        self._metrics.results.labels(decision.verdict.value).inc()
        if decision.verdict is Verdict.INVALID:
            self._invalid.append((partition, offset))
        self._held.add(partition, offset, decision)

    def _on_error(self, error: KafkaError, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error.code() == KafkaError._PARTITION_EOF:
            if partition is not None and offset is not None:
                self._held.reached_end(partition, offset)
        elif error.fatal() or error.code() in _HOPELESS:
            raise Unavailable(f"topic {self._topic}: {error.str()}")
        else:
            _LOG.warning("topic %s: %s", self._topic, error.str())

    def _deliver(self) -> None:
        decisions = [decision for _, decision in self._held.rows]
        rows = [decision.row for decision in decisions if decision.row is not None]
        try:
            stays = self._writer.write(rows)
        except RedisAway as error:
            self._metrics.failures.inc()
            self._metrics.redis_up.set(0)
            if not self._blocked:
                _LOG.warning("%s; %d answers wait", error, len(rows))
            self._block(blocked=True)
            return
        if rows:
            self._metrics.redis_up.set(1)
            self._metrics.kept.inc(len(stays) - stays.count(None))
        refused = self._writer.refused_callbacks - self._refused_callbacks
        self._metrics.refused_callbacks.inc(refused)
        self._refused_callbacks += refused
        now_ms = _now_ms()
        for decision in decisions:
            self._metrics.delivery.observe(max(0, now_ms - decision.done_ms) / 1000)
        self._held.settle()
        if self._blocked:
            _LOG.info("Redis is back; %d answers delivered", len(rows))
            self._block(blocked=False)

    def _block(self, *, blocked: bool) -> None:
        """Read nothing more while Redis is away; polling keeps us in the group all the same."""
        self._blocked = blocked
        assigned = self._consumer.assignment()
        if blocked:
            self._consumer.pause(assigned)
        else:
            self._consumer.resume(assigned)

    def _commit(self, *, wait: bool) -> None:
        commits = self._held.take_commits()
        if not commits:
            return
        offsets = [TopicPartition(self._topic, p, offset) for p, offset in commits.items()]
        try:
            if wait:
                self._consumer.commit(offsets=offsets, asynchronous=False)
            else:
                self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            # read again by whoever has the partition then; delivering twice changes nothing
            _LOG.warning("offsets were not committed: %s", error)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._log_gaps(consumer, partitions)
        consumer.incremental_assign(partitions)
        if self._blocked:
            consumer.pause(partitions)

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit(wait=True)
        self._held.revoke(p.partition for p in partitions)

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._held.revoke(p.partition for p in partitions)

    def _log_gaps(self, consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        """Say what retention took away before it was read; the reset would be silent about it."""
        try:
            for at in consumer.committed(list(partitions), _QUERY_S):
                low, _ = consumer.get_watermark_offsets(at, _QUERY_S)
                if 0 <= at.offset < low:
                    self._metrics.skipped.inc(low - at.offset)
                    _LOG.error(
                        "%s[%d]: %d offsets were deleted before they were relayed: raise retention",
                        self._topic,
                        at.partition,
                        low - at.offset,
                    )
        except KafkaException as error:
            _LOG.warning("can't compare commits with the log's start: %s", error)

    def _watch(self, now_ms: int) -> None:
        self._tell_invalid()
        lag, committed = self._lag()
        self._metrics.lag.set(-1 if lag is None else lag)
        if self._watchdog.stuck(committed, lag, excused=self._blocked, now_ms=now_ms):
            raise Stuck(
                f"topic {self._topic}: {lag} offsets are waiting and nothing has moved for "
                f"{self._watchdog.limit_ms / 1000:.0f} s: restart the relay"
            )

    def _tell_invalid(self) -> None:
        """One line for all of them: a wrong topic may hold millions."""
        if self._invalid:
            partition, offset = self._invalid[-1]
            _LOG.warning(
                "skipped %d records that are not results, the last at %s[%d]@%d",
                len(self._invalid), self._topic, partition, offset,
            )  # fmt: skip
            self._invalid.clear()

    def _lag(self) -> tuple[int | None, tuple[int, ...]]:
        """The group's lag over all partitions, None if unknown, and the committed offsets."""
        try:
            found = self._consumer.list_topics(self._topic, _QUERY_S).topics[self._topic]
            wanted = [TopicPartition(self._topic, p) for p in sorted(found.partitions)]
            lag, commits = 0, []
            for at in self._consumer.committed(wanted, _QUERY_S):
                low, end = self._consumer.get_watermark_offsets(at, _QUERY_S)
                lag += max(0, end - max(at.offset, low))
                commits.append(at.offset)
        except KafkaException as error:
            _LOG.warning("lag of %s is unknown: %s", self._topic, error)
            return None, ()
        return lag, tuple(commits)


_HOPELESS: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,
    }
)


def relay_group(settings: Settings) -> str:
    """Consumer group of the relay of this deployment."""
    return f"{settings.kafka.group}.relay"


def _headers(message: Message) -> Headers:
    return cast("Headers", message.headers() or [])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
