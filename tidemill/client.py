"""The blocking client: the asyncio client on a thread of its own, so there is one logic for both.

    with Tidemill() as client:
        answer = client.predict({"order_id": "o-1", ...}, timeout_s=0.5)

Safe to use from many threads.  Make it after a fork, not before.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from tidemill._results import Results
from tidemill.aio import AsyncTidemill, Ticket
from tidemill.answer import Answer
from tidemill.events import Event, Headers
from tidemill.settings import Settings

__all__ = ["Ticket", "Tidemill"]

_T = TypeVar("_T")


class Tidemill:
    """A client of one deployment; arguments, errors and limits as in `AsyncTidemill`."""

    def __init__(self, settings: Settings | None = None, **overrides: Any) -> None:
        self._client = AsyncTidemill(settings, **overrides)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tidemill-client", daemon=True)
        self._thread.start()

    @property
    def settings(self) -> Settings:
        """The settings that this client was made with."""
        return self._client.settings

    def predict(
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
        """Send one event and wait for its answer; see `AsyncTidemill.predict`."""
        return self._call(
            self._client.predict(
                event,
                features=features,
                key=key,
                task_id=task_id,
                deadline_ms=deadline_ms,
                timeout_s=timeout_s,
                event_time_ms=event_time_ms,
                headers=headers,
            )
        )

    def submit(
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
        """Send one event; returns when Kafka has confirmed it.  See `AsyncTidemill.submit`."""
        return self._call(
            self._client.submit(
                event,
                features=features,
                key=key,
                task_id=task_id,
                deadline_ms=deadline_ms,
                event_time_ms=event_time_ms,
                headers=headers,
            )
        )

    def wait(self, ticket: Ticket | str, timeout_s: float | None = None) -> Answer:
        """The answer of a task; see `AsyncTidemill.wait`."""
        return self._call(self._client.wait(ticket, timeout_s))

    def results(
        self, *, group: str | None = None, follow: bool = True, start: str = "latest"
    ) -> Generator[Answer, None, None]:
        """Answers from the result topic, all partitions, committed ones only.

        With ``group`` it goes on where the group stopped, and each answer comes at least once;
        without, it begins at ``start``: "earliest", or "latest" for what comes from this call on.
        Unless ``follow``, it ends at the end of the topic.  Raises Unavailable and ContractError.
        """
        return _answers(Results(self.settings, group=group, follow=follow, start=start))

    def close(self) -> None:
        """Deliver what is queued (5 s at most) and close the connections."""
        if self._loop.is_closed():
            return
        self._call(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())

    def _call(self, action: Coroutine[Any, Any, _T]) -> _T:
        future = asyncio.run_coroutine_threadsafe(action, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C must not leave a waiter behind
            raise


def _answers(results: Results) -> Generator[Answer, None, None]:
    try:
        while (batch := results.next_batch()) is not None:
            yield from batch
    finally:
        results.close()
