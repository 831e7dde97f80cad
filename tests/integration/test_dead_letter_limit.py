"""A share of dead letters over the limit stops the job for good, with a message."""

from __future__ import annotations

import time
from pathlib import Path

from deploy.local.stack import RunningStack
from tests.support.deployment import Deployment
from tests.support.views import Views


def test_too_many_dead_letters_stop_the_job_for_good(stack: RunningStack, tmp_path: Path) -> None:
    overlay = {"job": {"dead_letter_limit": 0.5, "dead_letter_min_rows": 200}}
    with Deployment(stack, "limit", tmp_path, overlay) as job, Views(job) as views:
        job.submit()
        # under the limit: 90 of 200 are bad
        for number in range(200):
            job.orders.send(f"t-{number}", b"bad" if number % 20 < 9 else None)
        job.orders.flush()
        answers = job.answers(f"t-{number}" for number in range(200))
        assert [a["status"] for a in answers.values()].count("error") == 90
        assert job.flink.state(job.job_id) == "RUNNING"

        for number in range(400):
            job.orders.send_raw(b"bad %d" % number)
        job.orders.flush()
        end = time.monotonic() + 30
        while job.flink.state(job.job_id) != "FAILED":
            assert time.monotonic() < end, job.flink.state(job.job_id)
            time.sleep(0.2)
        cause = job.flink.root_cause(job.job_id)
        assert "records are dead letters, the limit is 50.0% (job.dead_letter_limit)" in cause
        assert "malformed_json" in cause
        assert "tidemill dlq list" in cause
        # it ended by itself, once, and did not start over and write them again
        assert len(job.flink.exceptions(job.job_id)) == 1
        views.dlq.read(1.0)
        letters = [record.value for record in views.dlq.records if record.header("task-id") is None]
        assert len(letters) == len(set(letters)) > 0
