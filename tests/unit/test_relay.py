"""Contract: the relay owes Redis each answer that the job did not deliver, commits only what is
settled, and gives up only when a restart can help."""

from __future__ import annotations

from typing import Any

import pytest

from operators.relay import Decision, Held, RelayPolicy, Verdict, Watchdog, decide
from tests.answers import result

REALTIME = RelayPolicy(strict=False, ttl_ms=900_000)
STRICT = RelayPolicy(strict=True, ttl_ms=900_000)
PENDING = ("callback", b"pending")
NOW_MS = 2_010
LONG_AFTER_MS = 2_010 + 900_001


def verdict(policy: RelayPolicy, *headers: tuple[str, bytes | None], now_ms: int = NOW_MS) -> str:
    return decide(policy, result("t"), headers, now_ms).verdict


def test_realtime_delivers_what_is_pending() -> None:
    assert verdict(REALTIME, PENDING) is Verdict.DELIVER
    assert verdict(REALTIME) is Verdict.NOT_OWED
    assert verdict(REALTIME, ("callback", b"done")) is Verdict.NOT_OWED
    assert verdict(REALTIME, PENDING, ("callback", None)) is Verdict.NOT_OWED  # the last one counts


def test_strict_delivers_everything() -> None:
    assert verdict(STRICT) is Verdict.DELIVER
    assert verdict(STRICT, PENDING) is Verdict.DELIVER


def test_an_answer_that_would_have_expired_is_owed_only_if_promised() -> None:
    assert verdict(STRICT, now_ms=LONG_AFTER_MS) is Verdict.STALE
    assert verdict(STRICT, PENDING, now_ms=LONG_AFTER_MS) is Verdict.DELIVER
    assert verdict(STRICT, ("reply-to", b"billing"), now_ms=LONG_AFTER_MS) is Verdict.DELIVER


def test_the_row_is_what_the_writer_takes() -> None:
    value = result("t-1", attempt=3, status="late")
    decision = decide(STRICT, value, [("reply-to", b"billing")], NOW_MS)
    assert decision.row == ("t-1", 3, "late", "billing", value)
    assert decision.done_ms == 2_010


@pytest.mark.parametrize("name", [b"", b"a b", b"\xff", None])
def test_a_bad_reply_to_costs_the_stream_and_not_the_answer(name: bytes | None) -> None:
    row = decide(STRICT, result("t"), [("reply-to", name)], NOW_MS).row
    assert row is not None
    assert row[3] is None


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"{",
        b"[]",
        result("t", v=2),
        result("a b"),
        result("t", attempt="1"),
        result("t", done_ms=None),
    ],
)
def test_what_is_no_result_is_skipped(value: bytes | None) -> None:
    assert decide(STRICT, value, [], NOW_MS) == Decision(Verdict.INVALID)


def deliver() -> Decision:
    return decide(STRICT, result("t"), [], NOW_MS)


def test_nothing_is_committed_before_it_is_settled() -> None:
    held = Held()
    held.add(0, 10, deliver())
    held.add(0, 11, Decision(Verdict.NOT_OWED))
    held.add(1, 5, Decision(Verdict.INVALID))
    assert held.take_commits() == {}
    held.settle()
    assert held.take_commits() == {0: 12, 1: 6}
    assert held.take_commits() == {}


def test_the_end_of_a_partition_counts_control_records_as_read() -> None:
    """txn_markers_hw_minus_one: the last offsets are markers, which no message shows."""
    held = Held()
    held.add(0, 10, deliver())
    held.reached_end(0, 13)
    held.settle()
    assert held.take_commits() == {0: 13}


def test_a_partition_that_was_taken_away_is_neither_delivered_nor_committed() -> None:
    held = Held()
    held.add(0, 10, deliver())
    held.add(1, 20, deliver())
    held.revoke([0])
    assert [partition for partition, _ in held.rows] == [1]
    held.settle()
    assert held.take_commits() == {1: 21}
    held.add(1, 21, deliver())
    held.settle()
    held.revoke([1])
    assert held.take_commits() == {}


def stuck(watchdog: Watchdog, at_s: int, marker: object, lag: int | None, **kind: Any) -> bool:
    excused = kind.get("excused", False)
    return watchdog.stuck(marker, lag, excused=excused, now_ms=at_s * 1000)


def test_no_progress_with_lag_is_stuck_after_the_limit() -> None:
    """broker_restart_consumer_stuck: alive, and nothing is consumed."""
    watchdog = Watchdog(60_000)
    assert [stuck(watchdog, s, "same", 5) for s in (0, 30, 89, 90)] == [False, False, False, True]


def test_progress_starts_the_clock_again() -> None:
    watchdog = Watchdog(60_000)
    verdicts = [stuck(watchdog, s, f"commit {s // 50}", 5) for s in range(0, 300, 10)]
    assert not any(verdicts)


@pytest.mark.parametrize(("lag", "excused"), [(0, False), (None, False), (5, True)])
def test_no_work_unknown_lag_or_redis_away_is_not_stuck(lag: int | None, excused: bool) -> None:
    watchdog = Watchdog(60_000)
    assert not any(stuck(watchdog, s, "same", lag, excused=excused) for s in range(0, 600, 10))
    # and the clock begins after it, not before
    assert not stuck(watchdog, 600, "same", 5)
    assert stuck(watchdog, 660, "same", 5)
