"""Contract: a dead letter stays sendable, and too many of them stop the job with a reason."""

from __future__ import annotations

import pytest

from operators.dead_letter import DeadLetterGuard, GuardPolicy, Origin, dead_letter
from operators.errors import RecordError, StopJob
from operators.frames import EMPTY_HEADERS, append_headers, decode_headers
from tidemill.contracts import DLQ_HEADERS, DeadLetterReason

ORIGIN = Origin("t", 1, 2, 3, "g", "decode", 4)
ERROR = RecordError(DeadLetterReason.OUT_OF_RANGE, "speed is 900, its range is 0..200")


def headers_of(extra: bytes, count: int) -> dict[str, str]:
    pairs = decode_headers(append_headers(EMPTY_HEADERS, extra, count))
    return {name: (value or b"").decode() for name, value in pairs}


def test_headers_in_the_order_of_the_contract() -> None:
    extra, count, value = dead_letter(ORIGIN, ERROR, b"k", EMPTY_HEADERS, b"v", 10_000)
    headers = headers_of(extra, count)
    assert tuple(headers) == DLQ_HEADERS
    assert headers["x-dlq.message"] == ERROR.message
    assert headers["x-dlq.attempts"] == "4"
    assert value == b"v"


def test_a_long_message_is_cut_between_characters() -> None:
    error = RecordError(DeadLetterReason.WRONG_TYPE, "x" + "\u20ac" * 5000)
    extra, count, _ = dead_letter(ORIGIN, error, None, EMPTY_HEADERS, None, 10_000)
    message = headers_of(extra, count)["x-dlq.message"]
    assert len(message.encode()) <= 512
    assert message.startswith("x\u20ac")


@pytest.mark.parametrize("size", [0, 100, 7000, 9000, 9999, 10_000, 100_000])
def test_a_letter_is_within_its_limit_or_has_no_value_left(size: int) -> None:
    value = b"v" * size
    extra, count, kept = dead_letter(ORIGIN, ERROR, b"k" * 100, EMPTY_HEADERS, value, 10_000)
    assert kept is not None
    assert len(kept) + len(extra) + 100 + 2 < 10_000 + 64
    cut = int(headers_of(extra, count).get("x-dlq.truncated-bytes", "0"))
    assert len(kept) + cut == size
    assert (cut > 0) == (size > 9000)
    huge_key = dead_letter(ORIGIN, ERROR, b"k" * 20_000, EMPTY_HEADERS, value, 10_000)
    assert huge_key[2] == b""


def test_few_rows_are_not_judged_and_few_dead_ones_pass() -> None:
    guard = DeadLetterGuard(GuardPolicy(limit=0.5, min_rows=100))
    guard.observe(99, {"tombstone": 99}, 0)
    guard.observe(1000, {}, 1)
    for now_ms in range(2, 50):
        guard.observe(10, {"tombstone": 5}, now_ms)
    assert guard.share == 0.5


def test_over_the_limit_names_share_limit_reasons_and_remedy() -> None:
    guard = DeadLetterGuard(GuardPolicy(limit=0.5, min_rows=100))
    guard.observe(60, {"missing_field": 40}, 0)
    with pytest.raises(StopJob) as caught:
        guard.observe(50, {"tombstone": 10, "missing_field": 20}, 1)
    message = str(caught.value)
    for part in ("63.6%", "110 records", "50.0%", "missing_field 60, tombstone 10", "dlq list"):
        assert part in message


def test_old_rows_leave_by_number_and_by_age() -> None:
    guard = DeadLetterGuard(GuardPolicy(limit=0.5, min_rows=100, window_ms=1000))
    guard.observe(50, {"tombstone": 50}, 0)
    guard.observe(49, {}, 500)
    guard.observe(1, {}, 1001)  # the first frame is older than the window
    assert guard.share == 0.0
    guard.observe(100, {"tombstone": 50}, 1002)
    assert guard.share == 0.5
    guard.observe(100, {}, 1003)
    assert guard.share == 0.0


@pytest.mark.parametrize(
    "bad", [{"limit": -0.1}, {"limit": 1.1}, {"min_rows": 0}, {"window_ms": 0}]
)
def test_a_policy_that_cant_work(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="limit"):
        GuardPolicy(**{"limit": 0.5, "min_rows": 1, **bad})  # type: ignore[arg-type]
