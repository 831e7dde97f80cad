"""Ports are held from their choice to their use."""

from __future__ import annotations

import random
import socket

import pytest

from deploy.errors import StackError
from deploy.local.plan import Ports
from deploy.local.ports import HeldPorts, port_is_free


def test_two_holders_never_get_the_same_port() -> None:
    # the same seed makes both try the same ports first
    with HeldPorts(20, random.Random(1)) as one, HeldPorts(20, random.Random(1)) as two:
        assert not set(one.numbers) & set(two.numbers)
        assert len(one.numbers) == len(two.numbers) == 20


def test_a_held_port_is_taken_and_a_released_one_is_free() -> None:
    with HeldPorts(2) as held:
        first, second = held.numbers
        assert not port_is_free(first)
        held.release([first])
        assert port_is_free(first)
        assert not port_is_free(second)
    assert port_is_free(second)


def test_a_released_port_can_be_bound_at_once() -> None:
    with HeldPorts(1) as held:
        (port,) = held.numbers
        held.release([port])
        with socket.socket() as service:
            service.bind(("127.0.0.1", port))
            service.listen()
            assert not port_is_free(port)


def test_too_few_free_ports_is_an_error_that_lets_go_of_what_it_had() -> None:
    with pytest.raises(StackError, match="tidemill down"):
        HeldPorts(500)


def test_ports_of_a_stack_are_all_different() -> None:
    ports = Ports.of(range(Ports.needed()))
    dealt = [p for p in ports.as_dict().values() if isinstance(p, int)] + list(ports.flink_metrics)
    assert sorted(dealt) == list(range(Ports.needed()))
