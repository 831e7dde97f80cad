"""Whether a service answers; each question is asked of the service itself and may take a second."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import KafkaException

from deploy.errors import StackError
from deploy.kafka_admin import admin_client

_POLL_S = 0.1
_TIMEOUT_S = 2.0
_LOG_TAIL_LINES = 12


def wait_for(
    name: str, ask: Callable[[], bool], alive: Callable[[], bool], log: Path, timeout_s: float
) -> None:
    """Ask until the service answers; raises StackError with the end of its log if it does not."""
    end = time.monotonic() + timeout_s
    while not ask():
        if not alive():
            raise StackError(f"{name} ended at its start. The end of {log}:\n{tail(log)}")
        if time.monotonic() > end:
            raise StackError(
                f"{name} did not answer within {timeout_s:.0f} s. The end of {log}:\n{tail(log)}"
            )
        time.sleep(_POLL_S)


def tail(log: Path, lines: int = _LOG_TAIL_LINES) -> str:
    """The last lines of a log, empty if there is none."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def redis_answers(port: int) -> bool:
    """Whether PING is answered (while it loads its file a server refuses)."""
    try:
        with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S) as link:
            link.settimeout(_TIMEOUT_S)
            link.sendall(b"PING\r\n")
            return link.recv(64).startswith(b"+PONG")
    except OSError:
        return False


def kafka_answers(bootstrap: str) -> bool:
    """Whether the broker tells its metadata."""
    if not tcp_answers(bootstrap):
        return False  # librdkafka would log each refusal
    client = admin_client({"bootstrap.servers": bootstrap})
    try:
        return bool(client.list_topics(timeout=_TIMEOUT_S).brokers)
    except KafkaException:
        return False


def tcp_answers(address: str) -> bool:
    """Whether `host:port` takes a connection."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_S):
            return True
    except (OSError, ValueError):
        return False


def flink_slots(address: str) -> int:
    """Number of slots that have registered; -1 if the JobManager does not answer."""
    try:
        with urllib.request.urlopen(
            f"http://{address}/overview", timeout=_TIMEOUT_S
        ) as reply:  # our own address
            return int(json.load(reply)["slots-total"])
    except (OSError, ValueError, KeyError):
        return -1


def unix_answers(path: Path) -> bool:
    """Whether a unix socket takes a connection."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(_TIMEOUT_S)
        try:
            link.connect(str(path))
        except OSError:
            return False
    return True
