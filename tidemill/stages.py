"""Where the time of one answer went, stage by stage, as its caller saw it."""

from __future__ import annotations

from typing import Final

from tidemill.answer import Answer

STAGES: Final = {
    "to_job": "Kafka, until the job saw it",
    "queue": "queue, until the model took it",
    "service": "service, in the model",
    "job": "rest of the job",
    "to_caller": "Redis, until we heard it",
    "total": "total",
}


def where_time_went(answer: Answer, sent_ms: float, heard_ms: float) -> dict[str, float]:
    """Milliseconds by stage, from sending to hearing; clocks of the hosts must agree for them.

    ``job`` is what the job needed besides queueing and the model: decoding and encoding.
    """
    job_ms = answer.done_ms - answer.ingest_ms - answer.queue_ms - answer.service_ms
    stages = {
        "to_job": answer.ingest_ms - sent_ms,
        "queue": answer.queue_ms,
        "service": answer.service_ms,
        "job": job_ms,
        "to_caller": heard_ms - answer.done_ms,
        "total": heard_ms - sent_ms,
    }
    return {name: round(value, 3) for name, value in stages.items()}
