"""The asyncio client: send an event, wait for its answer, follow all answers.

    async with AsyncTidemill() as client:
        answer = await client.predict({"order_id": "o-1", ...}, timeout_s=0.5)

One Redis connection and one producer serve all calls of a client.  A client belongs to one loop.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from tidemill._hub import Hub
from tidemill._results import Results
from tidemill._sender import Sender, unreported
from tidemill.answer import Answer
from tidemill.contracts import check_id
from tidemill.errors import DeadlineExceeded, InvalidEvent, NotDelivered, TidemillError
from tidemill.events import Event, Headers, Record, build_record, event_from_features
from tidemill.settings import Settings, load_settings

DEFAULT_WAIT_S: Final = 10.0
_CLOSE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Ticket:
    """A task that Kafka has accepted; give it, or its ``task_id``, to `wait`."""

    task_id: str
    deadline_ms: int | None  # epoch; None if the job's own limit holds
    attempt: int = 1


class AsyncTidemill:
    """A client of one deployment; made from settings, or from the settings' file and overrides.

    ``AsyncTidemill(kafka__bootstrap="b:9092", redis__host="r")`` overrides single settings.
    """

    def __init__(self, settings: Settings | None = None, **overrides: Any) -> None:
        self.settings = settings or load_settings(overrides=overrides)
        if settings is not None and overrides:
            raise TypeError("give either settings or overrides, not both")
        self._hub = Hub(self.settings.redis, self.settings.prefix)
        self._sender = Sender(self.settings.kafka)

    async def predict(
        self,
        event: Event | None = None,
        *,
        features: Mapping[str, Any] | None = None,
        key: str | bytes | None = None,
        task_id: str | None = None,
        deadline_ms: int | None = None,
        timeout_s: float | None = None,
        event_time_ms: int | None = None,
        headers: Headers | None = None,
    ) -> Answer:
        """Send one event and wait for its answer, whatever its status.

        ``deadline_ms`` (epoch) travels with the event; ``timeout_s`` limits this wait.  Each one
        stands in for the other if only one is given; with neither, the wait is 10 s and the job's
        own limit holds.  Raises InvalidEvent, NotDelivered, DeadlineExceeded or Unavailable.
        """
        now_ms = _epoch_ms()
        if deadline_ms is None and timeout_s is not None:
            deadline_ms = now_ms + int(timeout_s * 1000)
        record = self._record(
            event, features, key, task_id, deadline_ms, event_time_ms or now_ms, headers
        )
        ticket = Ticket(record.task_id, deadline_ms, record.attempt)
        return await self._send_and_wait(record, ticket, timeout_s)

    async def submit(
        self,
        event: Event | None = None,
        *,
        features: Mapping[str, Any] | None = None,
        key: str | bytes | None = None,
        task_id: str | None = None,
        deadline_ms: int | None = None,
        event_time_ms: int | None = None,
        headers: Headers | None = None,
    ) -> Ticket:
        """Send one event; returns when Kafka has confirmed it, 10 s later at most.

        Raises InvalidEvent, NotDelivered or Unavailable.
        """
        when_ms = event_time_ms or _epoch_ms()
        record = self._record(event, features, key, task_id, deadline_ms, when_ms, headers)
        await self._send(record)
        return Ticket(record.task_id, deadline_ms, record.attempt)

    async def wait(self, ticket: Ticket | str, timeout_s: float | None = None) -> Answer:
        """The answer of a task: at once if it is there, else when it comes.

        Without ``timeout_s`` waits to the ticket's deadline, or 10 s.  Raises DeadlineExceeded,
        or Unavailable if Redis could not be asked at the end.
        """
        if isinstance(ticket, str):
            ticket = Ticket(check_id("task id", ticket), None)
        if timeout_s is None:
            timeout_s = _wait_s(ticket, _epoch_ms())
        value = await self._hub.wait(ticket.task_id, ticket.attempt, timeout_s)
        if value is None:
            raise DeadlineExceeded(
                f"no answer for task {ticket.task_id} within {timeout_s:.3f} s: wait for it again "
                "if it is still of use",
                ticket.task_id,
            )
        return Answer.from_json(value)

    async def results(
        self, *, group: str | None = None, follow: bool = True, start: str = "latest"
    ) -> AsyncGenerator[Answer, None]:
        """Answers from the result topic, as `Tidemill.results` says."""
        loop = asyncio.get_running_loop()
        results = await loop.run_in_executor(
            None, lambda: Results(self.settings, group=group, follow=follow, start=start)
        )
        try:
            while (batch := await loop.run_in_executor(None, results.next_batch)) is not None:
                for answer in batch:
                    yield answer
        finally:
            await loop.run_in_executor(None, results.close)

    async def close(self) -> None:
        """Deliver what is queued (5 s at most) and close the connections."""
        await self._hub.close()
        await asyncio.get_running_loop().run_in_executor(None, self._sender.close, _CLOSE_S)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _record(
        self,
        event: Event | None,
        features: Mapping[str, Any] | None,
        key: str | bytes | None,
        task_id: str | None,
        deadline_ms: int | None,
        when_ms: int,
        headers: Headers | None,
    ) -> Record:
        if (event is None) == (features is None):
            raise InvalidEvent("give either an event or features")
        if event is None:
            entity = key.decode() if isinstance(key, bytes) else key or str(uuid.uuid4())
            event = event_from_features(self.settings, features or {}, entity, str(uuid.uuid4()))
        return build_record(
            self.settings,
            event,
            key=key,
            task_id=task_id,
            deadline_ms=deadline_ms,
            timestamp_ms=when_ms,
            headers=headers,
        )

    async def _send_and_wait(
        self, record: Record, ticket: Ticket, timeout_s: float | None
    ) -> Answer:
        delivery = self._send(record)
        # At once: an answer can be there before Kafka's confirmation is.
        waiting = asyncio.ensure_future(self.wait(ticket, timeout_s))
        both: set[asyncio.Future[Any]] = {delivery, waiting}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if delivery.done():
                delivery.result()
            return await waiting
        except DeadlineExceeded as error:
            if delivery.done():
                raise
            raise NotDelivered(
                f"Kafka at {self.settings.kafka.bootstrap} has not confirmed task "
                f"{record.task_id} in time: send it again under the same task id",
                record.task_id,
            ) from error
        finally:
            waiting.cancel()
            delivery.cancel()

    def _send(self, record: Record) -> asyncio.Future[None]:
        """Produce; the future ends with the delivery report."""
        loop = asyncio.get_running_loop()
        delivered: asyncio.Future[None] = loop.create_future()
        delivered.add_done_callback(_look_at_error)

        def settle(error: TidemillError | None) -> None:
            if delivered.done():
                return
            if error is None:
                delivered.set_result(None)
            else:
                delivered.set_exception(error)

        def on_done(error: TidemillError | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, error)

        self._sender.send(record, on_done)
        # the producer reports within its own limit, unless it fails for good
        limit_s = self._sender.timeout_s + _CLOSE_S
        guard = loop.call_later(limit_s, settle, unreported(record, limit_s))
        delivered.add_done_callback(lambda _: guard.cancel())
        return delivered


def _look_at_error(delivered: asyncio.Future[None]) -> None:
    """An answer may come first; asyncio would log the error that nobody awaits then."""
    if not delivered.cancelled():
        delivered.exception()


def _wait_s(ticket: Ticket, now_ms: int) -> float:
    if ticket.deadline_ms is None:
        return DEFAULT_WAIT_S
    return max(ticket.deadline_ms - now_ms, 0) / 1000


def _epoch_ms() -> int:
    return time.time_ns() // 1_000_000
