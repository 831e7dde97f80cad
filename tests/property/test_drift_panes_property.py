"""A window is a recount of its rows, whatever the order, the replays and the restarts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from drift.panes import PanePolicy, PaneWindow, Put, Source

POLICY = PanePolicy(10, 30, 10)
SHAPE = (2, 3)
Partial = tuple[int, Source, NDArray[np.int64]]

partials = st.lists(
    st.tuples(
        st.integers(0, 9).map(lambda pane: pane * 10),
        st.builds(Source, st.integers(0, 3), st.just(0)),
        st.lists(st.integers(0, 5), min_size=3, max_size=3).map(lambda c: np.array([c, c[::-1]])),
    ),
    max_size=25,
    unique_by=lambda partial: (partial[0], partial[1].subtask),
)


def recount(parts: list[Partial], end: int) -> NDArray[np.int64]:
    total = np.zeros(SHAPE, np.int64)
    for pane, _, counts in parts:
        if end - POLICY.window_ms <= pane < end:
            total += counts
    return total


def same(one: PaneWindow, other: PaneWindow) -> bool:
    ours, theirs = one.panes(), other.panes()
    equal = [(a == b).all() for a, b in zip(ours, theirs, strict=True)]
    return bool(np.array_equal(one.total, other.total) and all(equal))


@given(partials)
def test_each_slide_is_a_recount(parts: list[Partial]) -> None:
    window = PaneWindow(POLICY, SHAPE)
    for pane, source, counts in parts:
        window.put(pane, source, counts)
    for end in range(10, 140, 10):
        window.slide_to(end)
        assert np.array_equal(window.total, recount(parts, end))
        starts, panes = window.panes()
        assert set(starts.tolist()) == set(range(end - POLICY.window_ms, end, POLICY.pane_ms))
        for start, counts in zip(starts.tolist(), panes, strict=True):
            own = [part for part in parts if part[0] == start]
            assert counts.tolist() == recount(own, start + 10).ravel().tolist()
    assert not window.total.any()


@given(partials, st.randoms(use_true_random=False), st.integers(1, 12))
def test_the_order_of_partials_does_not_matter(
    parts: list[Partial], chance: st.DataObject, end: int
) -> None:
    windows = []
    for _ in range(2):
        window = PaneWindow(POLICY, SHAPE)
        for pane, source, counts in parts:
            window.put(pane, source, counts)
        window.slide_to(end * 10)
        windows.append(window)
        chance.shuffle(parts)  # type: ignore[attr-defined]
    assert same(*windows)


@given(partials, st.integers(1, 12), st.integers(0, 2))
def test_a_replay_changes_nothing(parts: list[Partial], end: int, attempt: int) -> None:
    window = PaneWindow(POLICY, SHAPE)
    for pane, source, counts in parts:
        window.put(pane, source, counts)
    window.slide_to(end * 10)
    before = window.total.copy()
    for pane, source, counts in parts:
        put = window.put(pane, Source(source.subtask, attempt), counts)
        assert put in (Put.REPLACED, Put.EXPIRED)
    assert np.array_equal(window.total, before)


@given(partials, partials, st.integers(1, 10))
def test_late_partials_correct_the_panes_that_live(
    early: list[Partial], late: list[Partial], end: int
) -> None:
    window = PaneWindow(POLICY, SHAPE)
    for pane, source, counts in early:
        window.put(pane, source, counts)
    window.slide_to(end * 10)
    begin = end * 10 - POLICY.window_ms
    for pane, source, counts in late:
        put = window.put(pane, Source(source.subtask + 10, 0), counts)
        assert (put is Put.EXPIRED) == (pane < begin)
    assert np.array_equal(window.total, recount(early + late, end * 10))
    gone = sum(int(counts[0].sum()) for pane, _, counts in late if pane < begin)
    assert window.expired_rows == gone


@given(partials, partials, st.integers(1, 8))
def test_a_restored_window_goes_on_alike(
    before: list[Partial], after: list[Partial], end: int
) -> None:
    window = PaneWindow(POLICY, SHAPE)
    for pane, source, counts in before:
        window.put(pane, source, counts)
    window.slide_to(end * 10)
    restored = PaneWindow.restore(window.snapshot(), POLICY)
    assert restored.snapshot() == window.snapshot()
    for pane, source, counts in after:
        assert restored.put(pane, source, counts) is window.put(pane, source, counts)
    assert same(window, restored)
    assert list(window.due(200)) == list(restored.due(200))
    assert same(window, restored)


@given(partials, st.lists(st.integers(0, 200), max_size=8))
def test_windows_due_depend_on_the_rows_and_not_on_the_watermarks(
    parts: list[Partial], marks: list[int]
) -> None:
    ends = []
    for steps in ([200], [*sorted(marks), 200]):
        window = PaneWindow(POLICY, SHAPE)
        for pane, source, counts in parts:
            window.put(pane, source, counts)
        ends.append([(end, window.total.tolist()) for mark in steps for end in window.due(mark)])
    assert ends[0] == ends[1]
    for end, total in ends[0]:
        assert total == recount(parts, end).tolist()
