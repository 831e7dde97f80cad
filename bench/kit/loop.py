"""The loop that one would write by hand: what the job's throughput is compared with.

`python -m bench.kit.loop SETTINGS MODEL FROM TO COUNT` scores COUNT records: consume up to 128, orjson,
torch in this process, one redis-py pipeline (SET with TTL and PUBLISH), produce. The answers have the
fields, the headers and the Redis writes of the job's. It has none of the job's validation, late
split, deadlines, dedup, feature log, fallback or exactly-once state.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from confluent_kafka import Consumer, Message, Producer
from redis import Redis

from models.load import load_model
from models.spec import load_spec
from tidemill.contracts import (
    HEADER_CONTROL_VERSION,
    HEADER_MODEL_VERSION,
    HEADER_TASK_ID,
    RESULT_VERSION,
    result_key,
)
from tidemill.settings import load_settings

ROWS = 128
GROUP = "bench-loop"


class HandWrittenLoop:
    """Consumer, model, Redis and producer in one process."""

    def __init__(self, settings_path: Path, model: Path, source: str, target: str) -> None:
        settings = load_settings(settings_path, environ={})
        self._spec = load_spec(model)
        self._model = load_model(model, self._spec)
        kafka, redis = settings.kafka, settings.redis
        consumer = kafka.consumer_config(GROUP, reset="earliest")
        self._consumer = Consumer(consumer | {"enable.auto.offset.store": "true"})
        self._consumer.subscribe([source])
        self._producer = Producer(
            kafka.producer_config() | {"queue.buffering.max.messages": "1000000"}
        )
        self._redis: Redis = Redis(host=redis.host, port=redis.port)
        self._target = target
        self._prefix = settings.prefix
        self._ttl_s = redis.ttl_s
        self._sla_ms = settings.job.sla_ms
        version = self._spec.version.encode()
        self._headers = [(HEADER_MODEL_VERSION, version), (HEADER_CONTROL_VERSION, b"0")]

    def run(self, count: int) -> None:
        """Score ``count`` records, then commit."""
        done = 0
        while done < count:
            found = self._consumer.consume(ROWS, 0.05)
            messages = [message for message in found if message.error() is None]
            if messages:
                self._score(messages)
                done += len(messages)
        self._producer.flush()
        self._consumer.commit(asynchronous=False)
        self._consumer.close()

    def _score(self, messages: list[Message]) -> None:
        ingest_ms = int(time.time() * 1000)
        names = self._spec.feature_names
        events = [orjson.loads(message.value() or b"") for message in messages]
        rows = [[event["features"][name] for name in names] for event in events]
        start_ns = time.perf_counter_ns()
        scores = self._model.run(np.array(rows, np.float32)).tolist()
        service_ms = (time.perf_counter_ns() - start_ns) / 1e6
        done_ms = int(time.time() * 1000)
        pipe = self._redis.pipeline(transaction=False)
        for message, score in zip(messages, scores, strict=True):
            headers: Any = message.headers()
            task = dict(headers)[HEADER_TASK_ID].decode()
            result = orjson.dumps(
                self._result(message, task, score, service_ms, ingest_ms, done_ms)
            )
            key = result_key(self._prefix, task)
            pipe.set(key, result, ex=self._ttl_s)
            pipe.publish(key, "ok")
            self._producer.produce(
                self._target,
                key=message.key(),
                value=result,
                headers=headers + self._headers,
                timestamp=message.timestamp()[1],
            )
        pipe.execute()
        self._producer.poll(0)

    def _result(
        self,
        message: Message,
        task: str,
        score: list[float],
        service_ms: float,
        ingest_ms: int,
        done_ms: int,
    ) -> dict[str, Any]:
        return {
            "v": RESULT_VERSION,
            "task": task,
            "attempt": 1,
            "status": "ok",
            "tier": "full",
            "outputs": dict(zip(self._spec.output_names, score, strict=True)),
            "reason": None,
            "message": None,
            "model": self._spec.name,
            "model_version": self._spec.version,
            "control_version": 0,
            "frozen": [],
            "event_ms": message.timestamp()[1],
            "ingest_ms": ingest_ms,
            "done_ms": done_ms,
            "deadline_ms": ingest_ms + self._sla_ms,
            "queue_ms": 0.0,
            "service_ms": service_ms,
            "partition": message.partition(),
            "offset": message.offset(),
        }


def main() -> None:
    """Run the loop as its own process."""
    settings, model, source, target, count = sys.argv[1:]
    HandWrittenLoop(Path(settings), Path(model), source, target).run(int(count))


if __name__ == "__main__":
    main()
