"""What a worker process is doing right now, for its other threads and its supervisor.

One thread writes, others read single fields; nothing here locks or waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Progress:
    """Times are monotonic ns; `busy_since_ns` is 0 while no batch is being computed."""

    model: str
    version: str
    service_us: dict[int, int] = field(default_factory=dict)
    ready: bool = False
    draining: bool = False
    busy_since_ns: int = 0
    busy_bucket: int = 0
    progress_ns: int = 0
    batches: int = 0
    rows: int = 0
    connections: int = 0

    def health(self, now_ns: int) -> dict[str, Any]:
        """The body of /health. `busy_ms` = age of the batch under way, `service_ms` = its usual time."""
        since, bucket = self.busy_since_ns, self.busy_bucket
        return {
            "ready": self.ready,
            "draining": self.draining,
            "model": self.model,
            "version": self.version,
            "busy_ms": (now_ns - since) / 1e6 if since else 0.0,
            "bucket": bucket if since else 0,
            "service_ms": self.service_us.get(bucket, 0) / 1e3 if since else 0.0,
            "progress_age_ms": (now_ns - self.progress_ns) / 1e6,
            "batches": self.batches,
            "rows": self.rows,
            "connections": self.connections,
        }
