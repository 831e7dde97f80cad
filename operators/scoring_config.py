"""What the scoring operators need to know, as plain data that Flink can pickle to any machine.

Built once by the job from the settings and the model's folder, so that a TaskManager needs
neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.spec import ModelSpec
from operators.agent_link import WorkerAddress
from operators.batch_state import BatchPolicy
from operators.dedup import DedupPolicy
from operators.row_decode import DecodePolicy
from tidemill.settings import EventSettings, RedisSettings


@dataclass(frozen=True, slots=True)
class ScoringConfig:
    """``rules`` is the rule engine as data, None if the application has none.

    ``lane_labels[i]`` is the key of lane i; partition p belongs to lane p modulo their number.
    """

    spec: ModelSpec
    rules: Mapping[str, Any] | None
    event: EventSettings
    topic: str
    group: str
    strict: bool
    lane_labels: tuple[int, ...]
    decode: DecodePolicy
    batch: BatchPolicy
    dedup: DedupPolicy | None
    worker: WorkerAddress
    redis: RedisSettings
    prefix: str
    state_ttl_ms: int
    dead_letter_limit: float
    dead_letter_min_rows: int
    log_format: str = "human"
    log_level: str = "INFO"
    switch_interval_s: float = 0.0005

    def lane_of(self, partition: int) -> int:
        """The lane's key for a Kafka partition: an entity stays in its lane through rescaling."""
        return self.lane_labels[partition % len(self.lane_labels)]
