"""Contract: a payload's time means one instant in ms, or has the reason why it means none."""

from __future__ import annotations

from typing import Any

import pytest

from operators.errors import RecordError
from operators.event_time import check_payload_time, check_record_time, event_time_ms

DAY_MS = 86_400_000
NOV_1 = 1_793_491_200_000  # 2026-11-01T00:00:00Z


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-01T00:00:00Z", NOV_1),
        ("2026-11-01t00:00:00z", NOV_1),
        ("2026-11-01 00:00:00+00:00", NOV_1),
        ("2026-11-01T00:00Z", NOV_1),
        ("2026-11-01T01:30:00.123456789Z", NOV_1 + 5_400_123),
        ("2026-11-01T01:30:00.999999999Z", NOV_1 + 5_400_999),
        ("2026-11-01T01:30:00,5Z", NOV_1 + 5_400_500),
        ("2026-11-01T01:30:00.1Z", NOV_1 + 5_400_100),
        ("2026-11-01T02:00:00+02:00", NOV_1),
        ("2026-11-01T02:00:00+0200", NOV_1),
        ("2026-10-31T19:30:00-04:30", NOV_1),
        ("2026-11-01T05+05", None),
        ("2024-02-29T23:59:59Z", 1_709_251_199_000),
        ("1970-01-01T00:00:00.001Z", 1),
    ],
)
def test_iso_text(text: str, ms: int | None) -> None:
    if ms is None:
        assert refused(text) == "malformed_time"
    else:
        assert event_time_ms(text, "/t") == ms


@pytest.mark.parametrize(
    ("number", "ms"), [(5, 5), (5.9, 5), (NOV_1, NOV_1), (NOV_1 + 0.75, NOV_1)]
)
def test_numbers_are_ms_cut_to_the_past(number: float, ms: int) -> None:
    assert event_time_ms(number, "/t") == ms


def refused(value: Any) -> str:
    with pytest.raises(RecordError, match="/t") as caught:
        event_time_ms(value, "/t")
    return caught.value.reason.value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "missing_time"),
        (0, "missing_time"),
        (-1, "missing_time"),
        (-0.5, "missing_time"),
        ("1969-12-31T23:59:59Z", "missing_time"),
        (True, "wrong_type"),
        ([1], "wrong_type"),
        ({}, "wrong_type"),
        ("2026-11-01T01:30:00", "naive_time"),
        ("2026-10-25T02:30:00", "naive_time"),
        ("2026-06-30T23:59:60Z", "malformed_time"),
        ("2026-11-01T24:00:00Z", "malformed_time"),
        ("2026-02-29T00:00:00Z", "malformed_time"),
        ("2026-13-01T00:00:00Z", "malformed_time"),
        ("0000-01-01T00:00:00Z", "malformed_time"),
        ("2026-11-01T00:60:00Z", "malformed_time"),
        ("2026-11-01T00:00:00+24:00", "malformed_time"),
        ("2026-11-01", "malformed_time"),
        ("01.11.2026 10:00", "malformed_time"),
        ("", "malformed_time"),
        ("2026-11-01T00:00:00Zx", "malformed_time"),
        ("\u0662026-11-01T00:00:00Z", "malformed_time"),
    ],
)
def test_what_means_no_instant(value: Any, reason: str) -> None:
    assert refused(value) == reason


def test_record_times() -> None:
    check_record_time(1, 0, 1)
    check_record_time(1000, 500, 500)
    with pytest.raises(RecordError, match=r"1001.*501 ms ahead.*500") as future:
        check_record_time(1001, 500, 500)
    assert future.value.reason == "future_timestamp"
    for ts_ms in (0, -1):
        with pytest.raises(RecordError, match=str(ts_ms)) as missing:
            check_record_time(ts_ms, 500, 500)
        assert missing.value.reason == "missing_time"


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (NOV_1 // 1000, "looks like seconds"),
        (NOV_1 * 1000, "looks like microseconds"),
        (NOV_1 * 1_000_000, "looks like nanoseconds"),
        (NOV_1 - DAY_MS, "-86400000 ms from"),
    ],
)
def test_a_mismatch_hints_at_a_wrong_unit(value: int, hint: str) -> None:
    check_payload_time(NOV_1 + 10, "/t", NOV_1, 10)
    with pytest.raises(RecordError, match=hint) as caught:
        check_payload_time(value, "/t", NOV_1, 60_000)
    assert caught.value.reason == "time_mismatch"
