"""Contract: a message to the stopper ends the job for good, although the job may be restarted."""

from __future__ import annotations

from tests.contract.bridge_probe import Probe, blob, token


def test_the_job_ends_without_a_restart_and_says_why(probe: Probe) -> None:
    message = b"60 % of 1000 rows are dead letters"
    *causes, text = probe.ask("stop", token(message))
    assert causes[0] == "JobExecutionException"
    assert "SuppressRestartsException" in causes
    assert blob(text) == message
