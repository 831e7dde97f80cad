"""Contract: ids need no escaping anywhere, and tasks of different records differ."""

from __future__ import annotations

import json
from uuid import UUID, uuid5

from hypothesis import given
from hypothesis import strategies as st

from tidemill.contracts import TASK_NAMESPACE, result_key, task_id_for, valid_id

IDS = st.from_regex(r"[A-Za-z0-9._~:-]{1,200}", fullmatch=True)
RECORDS = st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=9), st.text(max_size=9))


@given(IDS)
def test_valid_ids_need_no_escaping(task: str) -> None:
    assert valid_id(task)
    assert json.dumps(task) == f'"{task}"'
    assert result_key("p", task).partition("{")[2] == task + "}"


@given(st.text())
def test_every_other_text_is_refused(text: str) -> None:
    allowed = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~:-")
    assert valid_id(text) == (0 < len(text) <= 200 and set(text) <= allowed)


@given(RECORDS)
def test_a_derived_task_is_a_valid_id_and_a_uuid5(record: tuple[str, bytes | None, str]) -> None:
    topic, key, event_id = record
    task = task_id_for(None, topic, key, event_id)
    name = f"{topic}\0{'-' if key is None else key.hex()}\0{event_id}"
    assert valid_id(task)
    assert UUID(task) == uuid5(TASK_NAMESPACE, name)


@given(RECORDS, RECORDS)
def test_different_records_are_different_tasks(
    one: tuple[str, bytes | None, str], other: tuple[str, bytes | None, str]
) -> None:
    # NUL separates the parts, so topics and event ids must not hold it to be told apart
    if one != other and not any("\0" in part for record in (one, other) for part in record[::2]):
        assert task_id_for(None, *one) != task_id_for(None, *other)
