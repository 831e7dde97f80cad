"""The asyncio shell of `Waiting`: one connection to Redis for all waiters of a client.

Connects when somebody waits, again with jittered pauses when the connection is lost, and keeps it
open afterwards.  Knows nothing of answers and events.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Final

import hiredis

from tidemill.backoff import BackOff
from tidemill.errors import Unavailable
from tidemill.resp import away, login_3, refusal, tls_context
from tidemill.settings import RedisSettings
from tidemill.waiting import Outcome, Waiting

_PROBE_MS: Final = 1000  # a silent connection is tried this often while somebody waits
_LAST_LOOK_MS: Final = 100  # past its deadline a caller is kept this long, to connect and to look


class Hub:
    """Waits for keys of one deployment; belongs to the loop that first awaits it."""

    def __init__(self, settings: RedisSettings, prefix: str) -> None:
        self._settings = settings
        self._tls = tls_context(settings)
        self._waiting = Waiting(prefix, login_3(settings), settings.timeout_ms, _PROBE_MS)
        self._numbers = itertools.count()
        self._backoff = BackOff()
        self._connecting: asyncio.Task[None] | None = None
        self._connection: _Connection | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._trouble = ""
        self._closed = False

    @property
    def address(self) -> str:
        """Host and port, for messages."""
        return f"{self._settings.host}:{self._settings.port}"

    async def wait(self, task: str, attempt: int, timeout_s: float) -> bytes | None:
        """The value of the task's key, or None if there is none after ``timeout_s`` seconds.

        Raises Unavailable if Redis could not be asked at the end of that time.
        """
        loop = asyncio.get_running_loop()
        told: asyncio.Future[Outcome] = loop.create_future()
        number = next(self._numbers)
        self._waiting.add(number, task, attempt, _teller(told), _now_ms(loop))
        self._advance(loop)
        try:
            outcome = await self._outcome(told, number, timeout_s, loop)
        finally:
            self._waiting.remove(number)
            self._flush()
        if isinstance(outcome, Unavailable):
            raise outcome
        return outcome

    async def _outcome(
        self,
        told: asyncio.Future[Outcome],
        number: int,
        timeout_s: float,
        loop: asyncio.AbstractEventLoop,
    ) -> Outcome:
        await asyncio.wait([told], timeout=max(timeout_s, 0))
        if told.done():
            return told.result()
        last_look_s = min(_LAST_LOOK_MS, self._settings.timeout_ms) / 1000
        if self._connecting is not None and not self._trouble:
            await asyncio.wait([self._connecting], timeout=last_look_s)  # a first, short wait
        self._waiting.last_look(number, _now_ms(loop), self._trouble or self._unreached())
        self._flush()
        await asyncio.wait([told], timeout=last_look_s)
        return told.result() if told.done() else Unavailable(self._trouble or self._unreached())

    def _unreached(self) -> str:
        return f"Redis at {self.address} did not answer in time: wait longer, or check it"

    async def close(self) -> None:
        """Close the connection; waiters end by their own deadlines."""
        self._closed = True
        if self._ticker is not None:
            self._ticker.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        if self._connection is not None:
            await self._connection.close()

    def _advance(self, loop: asyncio.AbstractEventLoop) -> None:
        """Connect if somebody waits and nobody connects; send what is to be sent."""
        if self._waiting.connected:
            self._flush()
        elif self._closed or self._waiting.idle:
            return
        elif self._connecting is None or self._connecting.done():
            self._connecting = loop.create_task(self._connect(loop))

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._waiting.idle:
            pause_ms = self._backoff.not_before_ms - _now_ms(loop)
            if pause_ms > 0:
                await asyncio.sleep(pause_ms / 1000)
            try:
                async with asyncio.timeout(self._settings.timeout_ms / 1000):
                    await loop.create_connection(
                        lambda: _Connection(self, loop),
                        self._settings.host,
                        self._settings.port,
                        ssl=self._tls,
                    )
            except OSError as error:
                self._failed(error, loop)
            if self._waiting.connected:  # it may be lost again before this line
                return

    def _failed(self, error: BaseException, loop: asyncio.AbstractEventLoop) -> None:
        self._backoff.failed(_now_ms(loop))
        if isinstance(error, hiredis.ReplyError):
            self._trouble = refusal(self.address, error)
        else:
            self._trouble = away(self.address, error, self._settings.timeout_ms)

    def opened(self, connection: _Connection, loop: asyncio.AbstractEventLoop) -> None:
        """The connection is there."""
        self._connection = connection
        self._waiting.on_connected(_now_ms(loop))
        self._flush()
        self._tick(loop)

    def received(self, data: bytes, loop: asyncio.AbstractEventLoop) -> None:
        """Bytes came; an error reply ends the connection."""
        connection = self._connection
        if connection is None:
            return
        try:
            self._waiting.on_replies(connection.parse(data), _now_ms(loop))
        except (hiredis.HiredisError, ConnectionError) as error:
            connection.drop(error)
            return
        self._backoff.succeeded()
        self._trouble = ""
        self._flush()

    def lost(self, error: BaseException, loop: asyncio.AbstractEventLoop) -> None:
        """The connection is gone: try again while somebody waits."""
        self._connection = None
        self._failed(error, loop)
        if self._ticker is not None:
            self._ticker.cancel()
        self._waiting.on_lost(self._trouble)
        self._advance(loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._waiting.on_tick(_now_ms(loop))
        except TimeoutError as error:
            if self._connection is not None:
                self._connection.drop(error)
            return
        self._flush()
        every_s = min(self._settings.timeout_ms, _PROBE_MS) / 2000
        self._ticker = loop.call_later(every_s, self._tick, loop)

    def _flush(self) -> None:
        if self._connection is not None:
            self._connection.send(self._waiting.take_output())


class _Connection(asyncio.Protocol):
    """One TCP connection; hands everything to the hub."""

    def __init__(self, hub: Hub, loop: asyncio.AbstractEventLoop) -> None:
        self._hub = hub
        self._loop = loop
        self._reader = hiredis.Reader()
        self._transport: asyncio.Transport | None = None
        self._why: BaseException | None = None
        self._closed = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._hub.opened(self, self._loop)

    def data_received(self, data: bytes) -> None:
        self._hub.received(data, self._loop)

    def connection_lost(self, error: Exception | None) -> None:
        why = self._why or error or ConnectionResetError("it closed the connection")
        if not self._closed.done():
            self._closed.set_result(None)
        self._hub.lost(why, self._loop)

    def parse(self, data: bytes) -> list[object]:
        """The replies that are complete now."""
        self._reader.feed(data)
        replies = []
        while (reply := self._reader.gets()) is not False:
            replies.append(reply)
        return replies

    def send(self, data: bytes) -> None:
        """Send, or buffer while the socket is full."""
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def drop(self, why: BaseException) -> None:
        """End the connection at once because of ``why``."""
        self._why = why
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """End the connection and wait for its end."""
        if self._transport is not None:
            self._transport.abort()
            await self._closed


def _teller(told: asyncio.Future[Outcome]) -> Callable[[Outcome], None]:
    def tell(outcome: Outcome) -> None:
        if not told.done():
            told.set_result(outcome)

    return tell


def _now_ms(loop: asyncio.AbstractEventLoop) -> int:
    return int(loop.time() * 1000)
