"""Contract: the link connects by itself, pauses before a worker that it dropped, and ends for good."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from operators.agent_link import WorkerAddress, WorkerLink


class Door:
    """A listening socket that takes connections and says nothing."""

    def __init__(self, path: Path) -> None:
        self.address = WorkerAddress(f"unix:{path}")
        self.taken: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        while True:
            try:
                self.taken.append(self._listener.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for sock in (self._listener, *self.taken):
            sock.close()


class Wakes:
    """Counts the calls of `wake`."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    opened = Door(tmp_path / "w.sock")
    yield opened
    opened.close()


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def adopt(link: WorkerLink) -> None:
    until(lambda: link.adopt() is not None)


def test_it_connects_wakes_its_owner_and_connects_again_when_dropped(door: Door) -> None:
    wakes = Wakes()
    link = WorkerLink(door.address, wakes)
    link.start()
    adopt(link)
    assert wakes.count == 1
    link.drop("stalled")
    assert (link.sock, link.last_error) == (None, "stalled")
    adopt(link)
    link.stop()


def test_a_worker_that_is_dropped_again_and_again_is_left_in_peace(door: Door) -> None:
    link = WorkerLink(door.address, Wakes())
    link.start()
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        if link.adopt() is not None:
            link.drop("it serves another model")
        time.sleep(0.001)
    link.stop()
    # the pauses double from 25..50 ms; without them there would be hundreds
    assert len(door.taken) <= 8


def test_after_its_end_it_wakes_nobody_and_leaves_no_connection(door: Door) -> None:
    wakes = Wakes()
    link = WorkerLink(door.address, wakes)
    link.start()
    adopt(link)
    link.stop()
    woken, taken = wakes.count, len(door.taken)
    assert link.sock is None
    assert door.taken[0].recv(1) == b""
    time.sleep(0.2)  # longer than the first pauses
    assert (wakes.count, len(door.taken)) == (woken, taken)


def test_it_ends_also_while_it_is_refused(tmp_path: Path) -> None:
    link = WorkerLink(WorkerAddress(f"unix:{tmp_path / 'nobody.sock'}"), Wakes())
    link.start()
    until(lambda: "nobody.sock" in link.last_error or "No such file" in link.last_error)
    with pytest.raises(ConnectionError, match="no worker at unix:"):
        link.send(b"frame")
    assert link.receive() == []
    link.stop()
    assert link.sock is None
