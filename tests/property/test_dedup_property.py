"""Properties of the dedup window: never the same pair twice within it, also through restarts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from operators.dedup import DedupPolicy, DedupWindow

STEPS = st.lists(
    st.tuples(
        st.integers(0, 120),  # ms since the step before
        st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 2)), max_size=4),
        st.booleans(),  # whether the job restarts first
    ),
    max_size=30,
)


@given(STEPS, st.integers(2, 5), st.integers(1, 200))
@settings(max_examples=300)
def test_a_pair_is_new_once_within_the_window(
    steps: list[tuple[int, list[tuple[str, int]], bool]], slots: int, window_ms: int
) -> None:
    policy = DedupPolicy(window_ms=window_ms, max_rows=10_000, slots=slots)
    window, stored, now_ms = DedupWindow(policy), dict[int, list[bytes]](), 0
    accepted: dict[tuple[str, int], int] = {}
    for wait_ms, pairs, restarts in steps:
        now_ms += wait_ms
        if restarts:
            window = DedupWindow(policy)
            window.restore(stored, now_ms)
        tasks, attempts = [task for task, _ in pairs], [attempt for _, attempt in pairs]
        mask, chunk, slot = window.filter(tasks, attempts, now_ms)
        assert bool(chunk) == any(mask)
        if chunk:
            if window.starts_slot(slot):
                stored[slot] = []
            stored.setdefault(slot, []).append(chunk)
        for pair, is_new in zip(pairs, mask, strict=True):
            seen_ms = accepted.get(pair)
            if is_new:
                assert seen_ms is None or now_ms - seen_ms > window_ms
                accepted[pair] = now_ms
            else:
                assert seen_ms is not None
                assert now_ms - seen_ms < policy.slot_ms * (slots + 1)
    assert len(stored) <= slots
