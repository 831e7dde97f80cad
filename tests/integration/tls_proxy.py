"""Speaks TLS in front of a plain server, because the embedded Redis is built without TLS."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

CERTS = Path(__file__).parent / "tls"


@contextlib.contextmanager
def tls_proxy(port: int, *, mutual: bool = False) -> Iterator[int]:
    """A port of 127.0.0.1 that forwards to ``port``; ``mutual`` asks for a client certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=CERTS / "ca.pem")
    context.load_cert_chain(CERTS / "server.pem", CERTS / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED if mutual else ssl.CERT_NONE
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(_listen(port, context))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _listen(port: int, context: ssl.SSLContext) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        plain_reader, plain_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pipe(reader, plain_writer), _pipe(plain_reader, writer))

    return await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


async def _end(server: asyncio.Server) -> None:
    server.close()
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
