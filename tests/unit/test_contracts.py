"""Contract: names, ids and derived values that other programs rely on never change silently."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import uuid5

import pytest

from tidemill import contracts as c
from tidemill.errors import InvalidEvent

DOCS = Path(__file__).parents[2] / "docs" / "contracts.md"


def test_task_of_a_record_without_header_is_the_uuid5_of_topic_key_and_event_id() -> None:
    name = f"orders\0{b'k1'.hex()}\0e-1"
    assert c.task_id_for(None, "orders", b"k1", "e-1") == str(uuid5(c.TASK_NAMESPACE, name))


def test_task_golden_value() -> None:
    task = c.task_id_for(None, "orders.order.created.v1", b"rider-1", "e-1")
    assert task == "18e8876b-5e02-5113-8f5f-ca4f261f766a"


def test_task_header_wins() -> None:
    assert c.task_id_for("mine", "orders", b"k1", "e-1") == "mine"


def test_null_and_empty_key_name_different_tasks() -> None:
    assert c.task_id_for(None, "t", None, "e") != c.task_id_for(None, "t", b"", "e")


def test_redis_names() -> None:
    prefix = c.key_prefix("tidemill", "dev")
    assert c.result_key(prefix, "t-1") == "tidemill:dev:res:{t-1}"
    assert c.callback_key(prefix, "billing") == "tidemill:dev:cb:billing"


def test_topic_names() -> None:
    assert c.late_topic("orders") == "orders.late"
    assert c.dlq_topic("orders", "g") == "orders.g.dlq"


def test_all_names_of_headers_are_lower_case_and_distinct() -> None:
    names = [*c.HEADERS, *c.DLQ_HEADERS, *c.LATE_HEADERS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z][a-z.-]*", name) for name in names)


@pytest.mark.parametrize("bad", ["", "a b", "a\n", "ä", 'a"', "a{b}", "a/b", "x" * 201])
def test_bad_ids_are_refused_with_the_rule(bad: str) -> None:
    assert not c.valid_id(bad)
    with pytest.raises(InvalidEvent, match=r"1 to 200 of A-Z a-z 0-9"):
        c.check_id("task id", bad)


def test_a_long_bad_id_is_not_repeated_in_full() -> None:
    with pytest.raises(InvalidEvent) as caught:
        c.check_id("task id", "x" * 100_000)
    assert len(str(caught.value)) < 300


def test_the_documents_name_every_part_of_the_contract() -> None:
    text = DOCS.read_text(encoding="utf-8")
    parts = [
        *c.HEADERS,
        *c.DLQ_HEADERS,
        *c.LATE_HEADERS,
        *c.RESULT_FIELDS,
        *c.CALLBACK_FIELDS,
        *(entry.value for kind in (c.Status, c.Tier, c.DeadLetterReason) for entry in kind),
    ]
    assert [part for part in parts if f"`{part}`" not in text] == []
