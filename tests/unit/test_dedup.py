"""Contract: within the window a task and attempt is new once, also after a restart."""

from __future__ import annotations

import pytest

from operators.dedup import DedupPolicy, DedupWindow
from tidemill.errors import ContractError

POLICY = DedupPolicy(window_ms=700, max_rows=80, slots=8)  # a slot is 100 ms, or 10 rows


class Store:
    """What the lane keeps in state: a list of chunks a slot."""

    def __init__(self, policy: DedupPolicy = POLICY) -> None:
        self.policy = policy
        self.window = DedupWindow(policy)
        self.slots: dict[int, list[bytes]] = {}

    def see(self, tasks: str, now_ms: int, attempt: int = 1) -> str:
        names = tasks.split()
        mask, chunk, slot = self.window.filter(names, [attempt] * len(names), now_ms)
        if chunk:
            if self.window.starts_slot(slot):
                self.slots[slot] = []
            self.slots.setdefault(slot, []).append(chunk)
        return "".join("n" if new else "-" for new in mask)

    def restart(self, now_ms: int) -> None:
        self.window = DedupWindow(self.policy)
        self.window.restore(self.slots, now_ms)


def test_a_pair_is_new_once_in_frame_and_across_frames() -> None:
    store = Store()
    assert store.see("a b a", 0) == "nn-"
    assert store.see("b c", 10) == "-n"
    assert store.see("a", 20, attempt=2) == "n"
    assert store.see("", 20) == ""


def test_a_task_that_looks_like_another_pair_is_its_own() -> None:
    store = Store()
    assert store.see("1 11", 0, attempt=1) == "nn"
    assert store.see("1", 0, attempt=11) == "n"


@pytest.mark.parametrize("seen_ms", [0, 1, 50, 99, 100, 350])
def test_it_is_remembered_for_the_window_and_forgotten_soon_after(seen_ms: int) -> None:
    for later in range(0, 700, 50):
        store = Store()
        store.see("x", 0)
        assert store.see("a", seen_ms) == "n"
        assert store.see("a", seen_ms + later) == "-"
    assert store.see("a", seen_ms + 1000) == "n"


def test_a_busy_lane_rotates_its_slots() -> None:
    store = Store()
    for now_ms in range(0, 5000, 10):
        assert store.see(f"t{now_ms}", now_ms) == "n"
        if now_ms >= 600:
            assert store.see(f"t{now_ms - 600}", now_ms) == "-"
    assert len(store.window) <= 81
    assert set(store.slots) == set(range(8))


def test_rows_are_bounded_before_the_window_is_over() -> None:
    store = Store()
    for i in range(1000):
        store.see(f"a{i} b{i} c{i}", 0)
    assert len(store.window) <= POLICY.max_rows + 3 * POLICY.slots
    assert store.see("a999", 0) == "-"
    assert store.see("a0", 0) == "n"


def test_a_restart_remembers_what_is_within_the_window() -> None:
    store = Store()
    store.see("a", 0)
    store.see("b", 450)
    store.restart(460)
    assert store.see("a b c", 470) == "--n"
    store.restart(810)
    assert store.see("a b c", 820) == "n--"
    store.restart(10_000)
    assert store.see("a b c", 10_000) == "nnn"


def test_a_restart_goes_on_in_the_ring_without_clearing_living_slots() -> None:
    store = Store()
    for now_ms in range(0, 3000, 30):
        store.restart(now_ms)
        assert store.see(f"t{now_ms}", now_ms) == "n"
        for back in range(30, min(now_ms, 690), 30):
            assert store.see(f"t{now_ms - back}", now_ms) == "-"


@pytest.mark.parametrize(
    ("chunk", "says"),
    [(b"", "0 bytes"), (b"x" * 20, "20 bytes"), (b"\x02" + bytes(16), "version 2")],
)
def test_foreign_state_is_an_error(chunk: bytes, says: str) -> None:
    with pytest.raises(ContractError, match=says):
        DedupWindow(POLICY).restore({0: [chunk]}, 0)


@pytest.mark.parametrize("bad", [{"slots": 1}, {"window_ms": 0}, {"max_rows": 3}])
def test_a_policy_that_cant_work(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 2 slots"):
        DedupPolicy(**bad)
