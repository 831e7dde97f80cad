"""Which topics there must be, and with what options."""

from __future__ import annotations

import pytest

from deploy.topics import planned_topics, topic_states
from tidemill.errors import Unavailable
from tidemill.settings import Settings, load_settings


def test_every_topic_of_the_settings_is_planned_once() -> None:
    settings = Settings()
    planned = {spec.role: spec for spec in planned_topics(settings)}
    names = [spec.name for spec in planned.values()]
    assert len(set(names)) == len(names) == 9
    assert planned["late"].name == settings.late_topic
    assert planned["dlq"].name == settings.dlq_topic


def test_recorded_events_are_not_deleted_for_their_age() -> None:
    for spec in planned_topics(Settings()):
        if spec.role == "control":
            continue
        assert spec.options["retention.ms"] == "-1", spec.role
        assert int(spec.options["retention.bytes"]) > 0, spec.role


def test_a_record_of_the_far_future_reaches_the_job() -> None:
    """A broker would refuse it, and with it the whole batch of its producer."""
    for spec in planned_topics(Settings()):
        assert spec.options["message.timestamp.after.max.ms"] == str(2**63 - 1), spec.role


def test_the_largest_record_fits_its_dead_letter_topic_with_more_headers() -> None:
    settings = Settings()
    roomy = {s.role: int(s.options.get("max.message.bytes", 0)) for s in planned_topics(settings)}
    for role in ("dlq", "late", "results"):
        assert roomy[role] > 2 * settings.job.max_value_bytes


def test_commands_keep_their_order_and_their_newest() -> None:
    settings = load_settings(environ={}, overrides={"topics.partitions": 12})
    planned = {spec.role: spec for spec in planned_topics(settings)}
    assert planned["control"].partitions == 1
    assert planned["control"].options["cleanup.policy"] == "compact"
    assert planned["orders"].partitions == 12


def test_a_broker_that_is_away_is_named_with_its_setting() -> None:
    settings = load_settings(environ={}, overrides={"kafka.bootstrap": "127.0.0.1:1"})
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1.*kafka\.bootstrap"):
        topic_states(settings)
