"""/health and /metrics of a worker, from threads of their own, over a unix socket or TCP.

Decides: what a probe sees. Must not know: torch, frames.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from models.address import Address, UnixAddress
from models.door import private_socket_file
from models.metrics import WorkerMetrics, render

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 5.0
SHUTDOWN_POLL_S = 0.1


class _Handler(BaseHTTPRequestHandler):
    metrics: WorkerMetrics
    timeout = REQUEST_TIMEOUT_S

    def do_GET(self) -> None:
        """/health: 200 if READY, else 503; /metrics: Prometheus text."""
        if self.path == "/health":
            at = self.metrics.progress
            good = at.ready and not at.draining
            body = json.dumps(at.health(time.monotonic_ns())).encode()
            self._answer(
                HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE, body, "application/json"
            )
        elif self.path == "/metrics":
            self._answer(HTTPStatus.OK, render(self.metrics), "text/plain; version=0.0.4")
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"try /health or /metrics\n", "text/plain")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        """A unix peer has no address; the base class would index into nothing."""
        return "local"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Probes are not worth a line each."""


class _QuietMixIn(socketserver.ThreadingMixIn):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A probe that has hung up is no event; the base class would print a trace."""
        log.debug("a probe failed", exc_info=True)


class _Server(_QuietMixIn, socketserver.TCPServer):
    allow_reuse_address = True


class _Ipv6Server(_Server):
    address_family = socket.AF_INET6


class _UnixServer(_QuietMixIn, socketserver.UnixStreamServer):
    """The same over a socket file."""


@contextlib.contextmanager
def serving_health(address: Address, metrics: WorkerMetrics) -> Iterator[None]:
    """Answer from a daemon thread while inside. Raises OSError if the address can't be taken."""
    handler = type("BoundHandler", (_Handler,), {"metrics": metrics})
    with contextlib.ExitStack() as stack:
        server: socketserver.BaseServer
        if isinstance(address, UnixAddress):
            with private_socket_file(address.path):
                server = _UnixServer(str(address.path), handler)
            stack.callback(address.path.unlink, missing_ok=True)
        else:
            kind = _Ipv6Server if ":" in address.host else _Server
            server = kind((address.host, address.port), handler)
        stack.callback(server.server_close)
        thread = threading.Thread(
            target=server.serve_forever, args=(SHUTDOWN_POLL_S,), name="health", daemon=True
        )
        thread.start()
        stack.callback(server.shutdown)
        yield
