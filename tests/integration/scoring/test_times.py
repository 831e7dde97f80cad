"""Deadlines, late records and strange clocks, counted from outside."""

from __future__ import annotations

import itertools
import time

from tests.integration.scoring.limits import MARGIN_MS, OUT_OF_ORDERNESS_MS
from tests.support.deployment import Deployment
from tests.support.model_folder import RULES_OUTPUTS
from tests.support.orders import event
from tests.support.views import Views, dlq_headers, late_headers, record_of
from tidemill.contracts import task_id_for

YEAR_2100_MS = 4_102_444_800_000


def test_what_is_past_its_deadline_expires(job: Deployment, name: str) -> None:
    past = int(time.time() * 1000) - 1
    job.orders.send(name, headers=[("deadline-ms", b"%d" % past)])
    answer = job.answer(name)
    assert (answer["status"], answer["tier"], answer["outputs"]) == ("expired", "none", None)
    assert (answer["reason"], answer["deadline_ms"]) == ("deadline_passed", past)


def test_rules_answer_when_too_little_time_is_left_for_the_model(
    job: Deployment, views: Views, name: str
) -> None:
    deadline = int(time.time() * 1000) + MARGIN_MS - 100
    job.orders.send(name, headers=[("deadline-ms", b"%d" % deadline)])
    answer = job.answer(name)
    assert (answer["status"], answer["tier"]) == ("ok", "rules")
    assert answer["reason"] == "deadline_near"
    assert answer["outputs"] == RULES_OUTPUTS
    assert answer["done_ms"] <= deadline
    assert views.result_of(name).json == answer


def test_a_late_record_goes_to_the_late_topic_and_its_caller_is_told(
    job: Deployment, views: Views, name: str
) -> None:
    late_ms = job.orders.now_ms() - 3_600_000
    value = event(name, a=4.0)
    job.orders.send(name, value, key=b"late", headers=[("h", b"1")], ts_ms=late_ms, partition=0)
    answer = job.answer(name)
    assert (answer["status"], answer["tier"], answer["reason"]) == ("late", "none", "late")
    assert answer["event_ms"] == late_ms
    record = record_of(views.late, value)
    assert (record.key, record.ts_ms) == (b"late", late_ms)
    assert record.headers[:2] == (("task-id", name.encode()), ("h", b"1"))
    added = late_headers(record)
    watermark_ms = int(added["x-late.watermark-ms"])
    assert int(added["x-late.lateness-ms"]) == watermark_ms - late_ms > 0
    assert added["x-late.topic"] == job.settings.topics.orders
    assert (int(added["x-late.partition"]), int(added["x-late.offset"])) == (0, answer["offset"])
    assert views.result_of(name).json == answer


def test_a_late_record_without_a_time_of_its_own_names_its_task_by_its_event(
    job: Deployment, name: str
) -> None:
    value = f'{{"event_id":"{name}","features":{{"a":1,"b":2}}}}'.encode()
    job.orders.send(None, value, key=b"k", ts_ms=job.orders.now_ms() - 3_600_000)
    task = task_id_for(None, job.settings.topics.orders, b"k", name)
    assert job.answer(task)["status"] == "late"


def test_a_record_of_the_year_2100_moves_no_watermark(
    job: Deployment, views: Views, name: str
) -> None:
    for partition in range(4):
        value = event(f"{name}-{partition}")
        job.orders.send(f"{name}-{partition}", value, ts_ms=YEAR_2100_MS, partition=partition)
        job.orders.flush()
        answer = job.answer(f"{name}-{partition}")
        assert (answer["status"], answer["reason"]) == ("error", "future_timestamp")
        added = dlq_headers(record_of(views.dlq, value))
        assert added["x-dlq.reason"] == "future_timestamp"
        assert added["x-dlq.timestamp"] == str(YEAR_2100_MS)
    end = time.monotonic() + 5 * job.settings.job.watermark_interval_ms / 1000
    sent: list[str] = []
    while time.monotonic() < end:
        sent.append(f"{name}-after-{len(sent)}")
        job.orders.send(sent[-1])
        time.sleep(0.02)
    job.orders.flush()
    assert {answer["status"] for answer in job.answers(sent).values()} == {"ok"}


def test_silent_partitions_do_not_hold_the_watermark(job: Deployment, name: str) -> None:
    """Partition 0 alone moves event time on; what lies behind it becomes late."""
    start_ms = job.orders.now_ms()
    step_ms = 4 * OUT_OF_ORDERNESS_MS
    job.orders.ahead_ms += step_ms  # for the tests that follow
    end = time.monotonic() + 30
    for number in itertools.count():
        job.orders.send(f"{name}-on-{number}", partition=0)
        job.orders.flush()
        job.answer(f"{name}-on-{number}")
        # ahead of all that the other partitions have seen, behind partition 0
        task = f"{name}-behind-{number}"
        job.orders.send(task, ts_ms=start_ms + OUT_OF_ORDERNESS_MS, partition=0)
        job.orders.flush()
        if job.answer(task)["status"] == "late":
            break
        assert time.monotonic() < end, "the silent partitions still hold the watermark"
        time.sleep(0.1)
    # a partition that wakes with old records: late, and no harm
    job.orders.send(f"{name}-woken", ts_ms=start_ms, partition=3)
    job.orders.send(f"{name}-woken-on-time", partition=3)
    job.orders.flush()
    assert job.answer(f"{name}-woken")["status"] == "late"
    assert job.answer(f"{name}-woken-on-time")["status"] == "ok"
