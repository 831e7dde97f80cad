"""Contract: the feature log's message survives the way to the drift job, or says what it is not."""

from __future__ import annotations

import numpy as np
import pytest

from operators.feature_log import FeatureLogError, decode_features, encode_features
from tests.lane_frames import lane_frame


def _message(*, served: bool) -> bytes:
    frame = lane_frame(3)
    replaced = np.full((2, 2), 9, np.float32) if served else None
    return encode_features(frame, [0, 2], 2, "schema", 4, replaced)


def test_served_values_follow_the_raw_ones_when_they_differ() -> None:
    rows = decode_features(_message(served=True))
    assert rows.raw.tolist() == [[0.0, 0.5], [2.0, 2.5]]
    assert rows.served.tolist() == [[9.0, 9.0], [9.0, 9.0]]
    assert rows.tasks == ["task-0", "task-2"]
    assert rows.schema_id == "schema"


@pytest.mark.parametrize("served", [True, False])
def test_every_truncation_is_found(served: bool) -> None:
    message = _message(served=served)
    for size in range(len(message)):
        with pytest.raises(FeatureLogError):
            decode_features(message[:size])


def test_foreign_bytes_and_versions_are_named() -> None:
    message = _message(served=False)
    with pytest.raises(FeatureLogError, match="magic"):
        decode_features(b"XXXX" + message[4:])
    with pytest.raises(FeatureLogError, match="version 9"):
        decode_features(message[:4] + b"\x09\x00" + message[6:])
