"""Contract: a lane frame in a checkpoint is read by this and by later releases."""

from __future__ import annotations

import marshal
from base64 import b64decode

import pytest

from operators.records import LANE_FRAME_VERSION, LaneFrame
from tidemill.errors import ContractError

FRAME = LaneFrame(
    partition=3,
    first_arrival_ms=1_767_225_600_100,
    tasks=["t-1", "t-2"],
    attempts=[1, 2],
    event_ms=[1_767_225_600_000, 1_767_225_600_001],
    offsets=[7, 8],
    deadlines=[1_767_225_600_300, 1_767_225_600_301],
    keys=[b"k", None],
    headers=[b"\0\0", b"\0\0"],
    reply_to=["caller", None],
    block=bytes(range(16)),
    decided=[None, ("late", "late", "behind")],
    values=[b"{}", None],
)
# Written by version 1.  Never change it: a checkpoint out there looks like this.
VERSION_1 = b64decode(
    "KQ7pAQAAAOkDAAAA7AMAAABkKLVtbQbbAgAAAHoDdC0x+gN0LTLbAgAAAHIAAAAA6QIAAADbAgAAAGwDAAAAACi1bW"
    "0GbAMAAAABKLVtbQbbAgAAAOkHAAAA6QgAAADbAgAAAGwDAAAALCm1bW0GbAMAAAAtKbVtbQbbAgAAAPMBAAAAa07b"
    "AgAAAPMCAAAAAAByDwAAANsCAAAA2gZjYWxsZXJO8xAAAAAAAQIDBAUGBwgJCgsMDQ4P2wIAAABOKQPaBGxhdGVyFA"
    "AAANoGYmVoaW5k2wIAAABzAgAAAHt9Tg=="
)


def test_round_trip() -> None:
    assert LaneFrame.decode(FRAME.encode()) == FRAME
    assert LaneFrame.decode(LaneFrame(0, 0).encode()) == LaneFrame(0, 0)


def test_the_first_version_is_read() -> None:
    assert LaneFrame.decode(VERSION_1) == FRAME


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "0 bytes"),
        (b"TMB1junk", "8 bytes"),
        (FRAME.encode()[:-3], "can't be read"),
        (marshal.dumps((LANE_FRAME_VERSION + 1, 0, 0), 4), "version 3"),
        (marshal.dumps(7, 4), "can't be read"),
        (marshal.dumps((LANE_FRAME_VERSION, 0), 4), "can't be read"),
    ],
)
def test_foreign_bytes_are_an_error(data: bytes, says: str) -> None:
    with pytest.raises(ContractError, match=says):
        LaneFrame.decode(data)


def test_select() -> None:
    chosen = FRAME.select([1])
    assert (chosen.tasks, chosen.block, chosen.values) == (["t-2"], bytes(range(8, 16)), [None])
    assert FRAME.select([0, 1]) == FRAME
    assert len(FRAME.select([])) == 0


def test_rows_packed_for_other_features_are_refused() -> None:
    frame = LaneFrame(0, 0, schema_id="old")
    frame.require_schema("old")
    FRAME.require_schema("any")  # version 1 did not say
    with pytest.raises(ContractError, match="packed for schema old, the model's is new"):
        LaneFrame.decode(frame.encode()).require_schema("new")
