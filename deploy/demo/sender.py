"""Sends a plan at its own pace from a thread, whatever becomes of the answers (open loop)."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import Producer

from deploy.demo.ledger import Entry, Ledger
from deploy.demo.plan import Sending
from deploy.demo.topic_reader import QUIET
from tidemill.errors import NotDelivered, Unavailable
from tidemill.settings import Settings

_FLUSH_S: Final = 20.0
_POLL_S: Final = 0.02


class Sender:
    """One producer and its thread. `start`, then `finish`; `stop` ends it early."""

    def __init__(self, settings: Settings, ledger: Ledger) -> None:
        config: dict[str, Any] = {**settings.kafka.producer_config(), "linger.ms": "0"}
        self._producer = Producer(config, logger=QUIET)
        self._topic = settings.topics.orders
        self._ledger = ledger
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._failed = 0
        self._last_error = ""
        self._broken: BaseException | None = None

    def start(self, plan: Sequence[Sending]) -> None:
        """Send ``plan``, its times counted from now."""
        self._stopped.clear()
        self._thread = threading.Thread(
            target=self._run, args=(plan,), name="demo-sender", daemon=True
        )
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether there is more to be sent."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """Send nothing more."""
        self._stopped.set()

    def finish(self) -> None:
        """Wait until all that was sent is confirmed; raises NotDelivered or Unavailable."""
        if self._thread is not None:
            self._thread.join()
        left = self._producer.flush(_FLUSH_S)
        if self._broken is not None:
            raise Unavailable(f"sending ended early: {self._broken}") from self._broken
        if left + self._failed:
            why = self._last_error or f"no confirmation within {_FLUSH_S:.0f} s"
            raise NotDelivered(f"{left + self._failed} records did not reach Kafka: {why}")

    def _run(self, plan: Sequence[Sending]) -> None:
        start_s = time.monotonic()
        try:
            for sending in plan:
                self._wait_until(start_s + sending.at_s)
                if self._stopped.is_set():
                    return
                self._send(sending)
        except BaseException as error:  # noqa: BLE001 - told by finish(), in the demo's own thread
            self._broken = error

    def _wait_until(self, due_s: float) -> None:
        self._producer.poll(0)
        while (left_s := due_s - time.monotonic()) > 0 and not self._stopped.is_set():
            self._producer.poll(min(left_s, _POLL_S))

    def _send(self, sending: Sending) -> None:
        self._ledger.add(Entry.of(sending, time.monotonic_ns()))
        self._producer.produce(
            self._topic,
            sending.value,
            sending.key,
            timestamp=sending.event_ms,
            headers=[sending.header],
            on_delivery=self._confirmed,
        )

    def _confirmed(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failed += 1
            self._last_error = str(error)
