"""What the job would make of one event: for tests of an application and for looking before sending."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from models.spec import ModelSpec
from operators.frames import EMPTY_HEADERS
from operators.mapping import EventKeys, EventMapping
from operators.row_decode import DecodePolicy, RawRow, RowDecoder
from operators.schema import FeatureSchema

_ANY_TIME_MS: Final = 2**60  # a preview has no record, so no record's time to agree with


def row_of(
    value: bytes, spec: ModelSpec, event: EventKeys, policy: DecodePolicy | None = None
) -> dict[str, float]:
    """The features that the model would get, by name; raises RecordError as the job would.

    A category is its index, a flag 0 or 1.  Raises MappingError if the settings don't fit the model.
    """
    schema = FeatureSchema.from_spec(spec)
    mapping = EventMapping.from_settings(event, schema)
    limits = replace(policy or DecodePolicy(), time_tolerance_ms=_ANY_TIME_MS)
    decoder = RowDecoder(mapping, limits, "preview", schema.schema_id)
    judged = decoder.judge(RawRow(1, None, EMPTY_HEADERS, value, late=False, now_ms=1))
    if judged.values is None:
        assert judged.error is not None
        raise judged.error
    return dict(zip(schema.names, judged.values, strict=True))
