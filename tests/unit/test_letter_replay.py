"""Contract: a replayed dead letter is the original record again, as a newer attempt."""

from __future__ import annotations

import pytest

from operators.letter_replay import replay_of
from tidemill.contracts import DLQ_HEADERS
from tidemill.errors import InvalidEvent

NOW_MS = 5_000
LETTER: list[tuple[str, bytes | None]] = [(name, b"7") for name in DLQ_HEADERS]
OWN: list[tuple[str, bytes | None]] = [("traceparent", b"00-a"), ("task-id", b"t"), ("x", None)]


def test_only_what_the_letter_added_goes() -> None:
    again = replay_of([*OWN, *LETTER], NOW_MS)
    assert (again.topic, again.timestamp_ms, again.attempt) == ("7", 7, 2)
    assert again.headers == [*OWN, ("attempt", b"2")]


def test_the_attempt_goes_up_and_the_last_duplicate_counts() -> None:
    again = replay_of([("attempt", b"9"), ("attempt", b"3"), *LETTER], NOW_MS)
    assert again.headers == [("attempt", b"4")]


def test_an_unreadable_attempt_counts_as_the_first() -> None:
    assert replay_of([("attempt", b"many"), *LETTER], NOW_MS).attempt == 2


@pytest.mark.parametrize(
    ("deadline", "stays"),
    [(b"4999", False), (b"5000", False), (b"5001", True), (b"soon", False), (None, False)],
)
def test_a_deadline_stays_only_while_it_can_be_met(deadline: bytes | None, stays: bool) -> None:
    again = replay_of([("deadline-ms", deadline), *LETTER], NOW_MS)
    assert (("deadline-ms", deadline) in again.headers) is stays


def test_a_cut_value_is_not_sent_again() -> None:
    with pytest.raises(InvalidEvent, match="was cut"):
        replay_of([*LETTER, ("x-dlq.truncated-bytes", b"5")], NOW_MS)


@pytest.mark.parametrize("missing", ["x-dlq.topic", "x-dlq.timestamp"])
def test_a_record_of_others_is_refused(missing: str) -> None:
    with pytest.raises(InvalidEvent, match=f"header {missing} is missing"):
        replay_of([header for header in LETTER if header[0] != missing], NOW_MS)
