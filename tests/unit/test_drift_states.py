"""Contract: each status and trigger has one successor, written down here a second time."""

from __future__ import annotations

import pytest

from drift.states import TRANSITIONS, FeatureState, Status, StreamState, Trigger
from tidemill.errors import ContractError

# rows are statuses, columns triggers, in the order of the enumerations
TABLE = """
             starved      unclear      calm         cleared alarmed   broken    aged         freeze  release      pin          rebase
ok           insufficient ok           ok           ok      alert     frozen    ok           frozen  ok           ok           insufficient
alert        alert        alert        alert        ok      alert     frozen    alert        frozen  ok           alert        insufficient
frozen       frozen       frozen       frozen       ok      frozen    frozen    escalated    frozen  ok           frozen       insufficient
insufficient insufficient insufficient ok           ok      alert     frozen    insufficient frozen  insufficient insufficient insufficient
escalated    escalated    escalated    escalated    ok      escalated escalated escalated    frozen  ok           escalated    insufficient
"""


def status_of(word: str) -> Status:
    return Status("insufficient_data" if word == "insufficient" else word)


def test_every_pair_leads_where_the_table_says() -> None:
    head, *rows = [line.split() for line in TABLE.strip().splitlines()]
    expected = {
        (status_of(row[0]), Trigger(column)): status_of(word)
        for row in rows
        for column, word in zip(head, row[1:], strict=True)
    }
    assert set(expected) == {(status, trigger) for status in Status for trigger in Trigger}
    assert expected == TRANSITIONS


def test_no_window_unfreezes_but_through_lasting_calm() -> None:
    for (status, trigger), new in TRANSITIONS.items():
        if status.is_frozen and not new.is_frozen:
            assert trigger in (Trigger.CLEARED, Trigger.RELEASE, Trigger.REBASE)


def test_state_comes_back_as_it_was_stored() -> None:
    state = StreamState(
        {"x": FeatureState(Status.FROZEN, True, 5, 3, None, 4, 7, "abc"), "y": FeatureState()},
        version=7,
        stream_broken=True,
        evaluated_ms=5,
        requests=["a"],
    )
    again = StreamState.decode(state.encode())
    assert again == state
    assert again.features["x"].status is Status.FROZEN


def test_state_of_another_version_is_refused() -> None:
    with pytest.raises(ContractError, match="version 99"):
        StreamState.decode(b'{"schema_version": 99, "features": {}}')
