"""Contract: a preview says what the job would make of an event, or why it would refuse it."""

from __future__ import annotations

import pytest

from models.spec import ModelSpec, OutputSpec
from operators.errors import MappingError, RecordError
from operators.preview import row_of
from operators.row_decode import DecodePolicy
from tests.decoding import FEATURES, GOOD_ROW, event, without
from tidemill.settings import EventSettings, FeaturePointer

SPEC = ModelSpec("m", "1", FEATURES, (OutputSpec("eta_min"),))


def test_a_good_event_becomes_a_row_by_name() -> None:
    row = row_of(event(at="2031-01-01T00:00:00Z"), SPEC, EventSettings(event_time="/at"))
    assert list(row) == [feature.name for feature in FEATURES]
    assert tuple(row.values()) == GOOD_ROW


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (without("stops"), "missing_field"),
        (b"{", "malformed_json"),
        (event(event_id=None, order_id=None), "missing_key"),
        (event(at="2031-01-01T00:00:00"), "naive_time"),
        (event(at=1, note="x" * 1000), "oversized"),
    ],
)
def test_what_the_job_would_refuse(value: bytes, reason: str) -> None:
    settings = EventSettings(event_time="/at" if b"at" in value and b"2031" in value else "")
    with pytest.raises(RecordError) as refused:
        row_of(value, SPEC, settings, DecodePolicy(max_value_bytes=1000))
    assert refused.value.reason == reason


def test_a_mapping_that_does_not_fit_the_model() -> None:
    with pytest.raises(MappingError, match="no such feature"):
        row_of(event(), SPEC, EventSettings(features={"zz": FeaturePointer("/z")}))
