"""Free ports, held until the service that needs them starts.

A port that was only looked up may be gone a second later, to another stack or to an outgoing
connection. So ports are bound here from the moment of the choice, below the range that the kernel
hands to outgoing connections, and let go just before their service binds them.
"""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from deploy.errors import StackError

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 15000  # below lie the well-known ports of the services that we start
_TRIES = 400


class HeldPorts:
    """A number of bound ports of 127.0.0.1; leaving the context lets all of them go."""

    def __init__(self, count: int, rng: random.Random | None = None) -> None:
        """Bind ``count`` free ports; raises StackError if there are not so many."""
        self._held: dict[int, socket.socket] = {}
        rng = rng or random.Random()  # noqa: S311  # spreads stacks over the range, guards nothing
        highest = _lowest_ephemeral()
        for _ in range(_TRIES):
            if len(self._held) == count:
                break
            self._try(rng.randrange(_LOWEST, highest))
        self.numbers = sorted(self._held)
        if len(self.numbers) < count:
            self.release_all()
            raise StackError(
                f"only {len(self.numbers)} of {count} ports are free between {_LOWEST} and"
                f" {highest}: stop other stacks (tidemill down)"
            )

    def release(self, ports: Iterable[int]) -> None:
        """Let ports go, right before their service binds them."""
        for port in ports:
            if held := self._held.pop(port, None):
                held.close()

    def release_all(self) -> None:
        """Let every port go."""
        self.release(list(self._held))

    def __enter__(self) -> HeldPorts:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.release_all()

    def _try(self, port: int) -> None:
        if port in self._held:
            return
        # bound on all addresses: a service of another user on 0.0.0.0 would clash as well
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        with contextlib.suppress(OSError):
            held.bind(("0.0.0.0", port))  # noqa: S104  # never listens
            self._held[port] = held
            return
        held.close()


def port_is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a service could bind the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _lowest_ephemeral() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        lowest = int(_EPHEMERAL.read_text().split()[0])
        if lowest > _LOWEST + 1000:
            return lowest
    return 32768
