"""The hops that no design avoids, as a program: a bare consumer that answers through Redis at once.

`python -m bench.kit.echo SETTINGS TOPIC` prints `ready`, then answers until it is ended. The payload
of a wake-up is the time at which the record came out of Kafka.
"""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

import hiredis
from confluent_kafka import OFFSET_END, Consumer, Message, TopicPartition

from tidemill.contracts import HEADER_TASK_ID, result_key
from tidemill.resp import pack
from tidemill.settings import Settings, load_settings

_ANSWER = b"x" * 550  # as long as a result


def main() -> None:
    """Consume one record at a time, SET and PUBLISH, for ever."""
    settings = load_settings(Path(sys.argv[1]), environ={})
    consumer = _consumer(settings, sys.argv[2])
    redis = settings.redis
    reader = hiredis.Reader()
    with socket.create_connection((redis.host, redis.port), 5) as sock:
        print("ready", flush=True)
        while True:
            message = consumer.poll(1.0)
            if message is None or message.error():
                continue
            got = b"%.6f" % time.time()
            key = result_key(settings.prefix, _task(message))
            sock.sendall(pack(("SET", key, _ANSWER, "EX", 60)) + pack(("PUBLISH", key, got)))
            replies = 0
            while replies < 2:
                if reader.gets() is not False:
                    replies += 1
                else:
                    reader.feed(sock.recv(4096))


def _task(message: Message) -> str:
    task = dict(message.headers() or [])[HEADER_TASK_ID]
    assert isinstance(task, bytes)
    return task.decode()


def _consumer(settings: Settings, topic: str) -> Consumer:
    consumer = Consumer(settings.kafka.consumer_config("bench-echo", reset="latest"))
    partitions = range(settings.topics.partitions)
    consumer.assign([TopicPartition(topic, p, OFFSET_END) for p in partitions])
    consumer.poll(1.0)  # the assignment is under way before anyone is told that we are ready
    return consumer


if __name__ == "__main__":
    main()
