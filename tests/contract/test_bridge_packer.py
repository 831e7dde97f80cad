"""Contract: when the packer flushes and what it calls late, and what moves the watermark.

The Java classes themselves, driven by Flink's interfaces: by a script, then in a real Flink task.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest

from operators.frames import EMPTY_HEADERS, NO_WATERMARK, BatchFrame, Record, encode_record
from tests.contract.bridge_probe import Probe, ProbeError, blob, token

LINGER_MS = 5
BIG = 1 << 20
HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000
YEAR_2100_MS = 4_102_444_800_000


def arrival(offset: int, ts: int = NOW_MS, partition: int = 0, value: bytes = b"v") -> str:
    record = Record(ts, partition, offset, b"k", EMPTY_HEADERS, value)
    return "record:" + token(encode_record(record))


def pack(
    probe: Probe, *script: str, max_rows: int = 100, max_bytes: int = BIG
) -> list[BatchFrame | str]:
    """What leaves the packer: frames, and the other events by name."""
    events = probe.ask("pack", max_rows, LINGER_MS, max_bytes, *script)
    frames = [blob(event) if event.startswith("x") else None for event in events]
    return [
        event if frame is None else BatchFrame.decode(frame)
        for event, frame in zip(events, frames, strict=True)
    ]


def shape(events: Sequence[BatchFrame | str]) -> list[str | list[int]]:
    """Frames as their offsets."""
    return [event if isinstance(event, str) else event.offsets for event in events]


def only_frame(events: Sequence[BatchFrame | str]) -> BatchFrame:
    (frame,) = [event for event in events if isinstance(event, BatchFrame)]
    return frame


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ("watermark:7", ["watermark:7"]),
        ("barrier", ["barrier"]),
        ("idle", ["idle"]),
        ("finish", []),
    ],
)
def test_rows_leave_before_what_may_not_overtake_them(
    probe: Probe, event: str, told: list[str]
) -> None:
    events = pack(probe, arrival(1), arrival(2), event, arrival(3), event)
    assert shape(events) == [[1, 2], *told, [3], *told]


def test_a_full_frame_leaves_at_once(probe: Probe) -> None:
    events = pack(probe, *(arrival(i) for i in range(7)), max_rows=3)
    assert shape(events) == [[0, 1, 2], [3, 4, 5]]


def test_a_row_waits_for_linger_at_most(probe: Probe) -> None:
    waits = [arrival(1), f"advance:{LINGER_MS - 1}", arrival(2)]
    assert shape(pack(probe, *waits)) == []
    assert shape(pack(probe, *waits, "advance:1", arrival(3))) == [[1, 2]]
    assert shape(pack(probe, *waits, "advance:1", arrival(3), f"advance:{LINGER_MS}")) == [
        [1, 2],
        [3],
    ]


def test_a_row_that_comes_alone_leaves_at_once(probe: Probe) -> None:
    quiet = f"advance:{LINGER_MS + 1}"
    events = pack(probe, arrival(1), quiet, quiet, arrival(2), arrival(3), quiet, quiet, arrival(4))
    assert shape(events) == [[1], [2], [3], [4]]


def test_a_frame_holds_one_partition(probe: Probe) -> None:
    events = pack(
        probe, arrival(1, partition=4), arrival(1, partition=2), arrival(2, partition=4), "finish"
    )
    frames = [event for event in events if isinstance(event, BatchFrame)]
    assert [(frame.partition, frame.offsets) for frame in frames] == [(2, [1]), (4, [1, 2])]


def test_a_frame_stays_under_its_bytes(probe: Probe) -> None:
    limit = 1000
    values = [bytes(300), bytes(300), bytes(300), bytes(5000), b"v"]
    script = [arrival(i, value=value) for i, value in enumerate(values)]
    events = pack(probe, *script, "finish", max_bytes=limit)
    assert shape(events) == [[0, 1], [2], [3], [4]]
    sizes = [len(event.data) for event in events if isinstance(event, BatchFrame)]
    assert [size <= limit for size in sizes] == [True, True, False, True]


def test_rows_carry_their_whole_record(probe: Probe) -> None:
    frame = only_frame(pack(probe, "advance:40", arrival(1), "advance:3", arrival(2), "finish"))
    assert frame.first_arrival_ms == 40
    assert frame.watermark_ms == NO_WATERMARK
    rows = [(row.ts, row.offset, row.key, row.headers, row.value) for row in frame.rows()]
    assert rows == [(NOW_MS, i, b"k", EMPTY_HEADERS, b"v") for i in (1, 2)]


def test_late_is_judged_by_the_watermark_of_the_arrival(probe: Probe) -> None:
    rows = [arrival(i, ts) for i, ts in enumerate((NOW_MS - 1, NOW_MS, NOW_MS + 1))]
    before, after = (
        event
        for event in pack(probe, *rows, f"watermark:{NOW_MS}", *rows, "finish")
        if isinstance(event, BatchFrame)
    )
    assert (before.late, before.watermark_ms) == (b"\0\0\0", NO_WATERMARK)
    assert (after.late, after.watermark_ms) == (b"\1\1\0", NOW_MS)


def test_a_row_without_a_time_is_not_late(probe: Probe) -> None:
    frame = only_frame(pack(probe, "watermark:7", arrival(1, ts=-1), arrival(2, ts=0), "finish"))
    assert frame.late == b"\0\0"


@pytest.mark.parametrize("size", range(len(encode_record(Record(1, 2, 3, b"k", b"\0\0", None)))))
def test_the_packer_refuses_a_record_frame_cut_at_any_byte(probe: Probe, size: int) -> None:
    frame = encode_record(Record(1, 2, 3, b"k", b"\0\0", None))[:size]
    with pytest.raises(ProbeError, match=r"^FrameFormatException record frame: expected"):
        pack(probe, "record:" + token(frame))


def test_limits_that_can_not_work_are_refused(probe: Probe) -> None:
    with pytest.raises(ProbeError, match=r"^IllegalArgumentException maxRows 0"):
        pack(probe, max_rows=0)


def watermarks(probe: Probe, *script: str, idle_ms: int = 0) -> list[str]:
    """What a source with 10 s of disorder and 5 min of future emits, from NOW_MS on."""
    return probe.ask("watermarks", 10_000, 300_000, idle_ms, NOW_MS, *script)


def after(ts: int) -> str:
    return f"watermark:{ts - 10_000 - 1}"


def test_the_watermark_follows_the_newest_record(probe: Probe) -> None:
    script = [f"event:{NOW_MS}", f"event:{NOW_MS - 5000}", "emit", f"event:{NOW_MS + 7}", "emit"]
    assert watermarks(probe, *script) == [after(NOW_MS), after(NOW_MS + 7)]


@pytest.mark.parametrize("wrong", [YEAR_2100_MS, 2**63 - 1, NOW_MS + 300_001, 0, -1, -(2**63)])
def test_a_wrong_clock_never_moves_the_watermark(probe: Probe, wrong: int) -> None:
    script = [f"event:{wrong}", "emit", f"event:{NOW_MS}", f"event:{wrong}", "emit"]
    assert watermarks(probe, *script) == [after(NOW_MS)]


def test_the_guard_goes_with_the_wall_clock(probe: Probe) -> None:
    ahead = NOW_MS + HOUR_MS
    script = [f"event:{ahead}", "emit", f"advance:{HOUR_MS - 300_000}", f"event:{ahead}", "emit"]
    assert watermarks(probe, *script) == [after(ahead)]


def test_a_partition_with_only_wrong_clocks_becomes_idle(probe: Probe) -> None:
    wrong = [f"event:{YEAR_2100_MS}", "emit", "advance:600"]
    script = [f"event:{NOW_MS}", "emit", *wrong, *wrong, *wrong, f"event:{NOW_MS + 1}", "emit"]
    assert [e for e in watermarks(probe, *script, idle_ms=1000) if e != "active"] == [
        after(NOW_MS),
        "idle",
        after(NOW_MS + 1),
    ]


def test_in_a_flink_task_no_row_is_lost_or_passed_by_a_watermark(probe: Probe) -> None:
    rows, max_rows = 20_000, 16
    words = iter(probe.ask("job", rows, max_rows, 1))
    seen: dict[int, list[int]] = defaultdict(list)
    marks, late = set(), 0
    for watermark, word in zip(words, words, strict=True):
        data = blob(word)
        assert data is not None
        frame = BatchFrame.decode(data)
        assert frame.watermark_ms == int(watermark)
        assert 1 <= len(frame) <= max_rows
        assert list(frame.late) == [ts <= frame.watermark_ms for ts in frame.ts]
        seen[frame.partition] += frame.offsets
        marks.add(frame.watermark_ms)
        late += sum(frame.late)
    assert seen == {part: list(range(part, rows, 3)) for part in range(3)}
    assert len(marks) > 1
    assert 0 < late < rows / 10
