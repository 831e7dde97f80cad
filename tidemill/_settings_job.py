"""Settings of what we run: the model, the job, its batches, the worker, logs and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidemill._setting import Section, setting


@dataclass(frozen=True)
class ModelSettings(Section):
    """Which model is served."""

    section: ClassVar[str] = "model"
    path: str = setting("", "Folder of the model.")


@dataclass(frozen=True)
class JobSettings(Section):
    """The scoring job; times of events are Kafka record timestamps."""

    section: ClassVar[str] = "job"
    mode: str = setting(
        "realtime",
        "`realtime`: at least once, Redis written at once; `strict`: exactly once, by the relay.",
        choices=("realtime", "strict"),
    )
    name: str = setting("tidemill-scoring", "Name of the job in Flink.")
    parallelism: int = setting(1, "Subtasks.", low=1, high=1024)
    max_parallelism: int = setting(
        128, "Limit of later rescaling; can't be changed with the state kept.", low=1, high=32_768
    )
    lanes: int = setting(4, "Keyed lanes in all; a multiple of the subtasks.", low=1, high=4096)
    sla_ms: int = setting(200, "Time to answer for events without a deadline, in ms.", low=1)
    max_rows: int = setting(256, "Most records in a frame to Python.", low=1, high=65_536)
    linger_ms: int = setting(1, "Longest wait for a frame to fill, in ms.", low=0, high=1000)
    out_of_orderness_ms: int = setting(
        15_000, "How far behind the newest an event may be before it is late, in ms.", low=0
    )
    watermark_interval_ms: int = setting(2000, "Time between watermarks, in ms.", low=1)
    idle_ms: int = setting(
        5000, "After this silence a partition no longer holds the watermark back, in ms.", low=1
    )
    future_limit_ms: int = setting(
        300_000, "Events further in the future than this are dead letters, in ms.", low=0
    )
    checkpoint_interval_ms: int = setting(5000, "Time between checkpoints, in ms.", low=10)
    checkpoint_timeout_ms: int = setting(60_000, "Longest checkpoint, in ms.", low=10)
    tolerable_checkpoint_failures: int = setting(
        3, "Failed checkpoints in a row before the job restarts.", low=0
    )
    state_ttl_ms: int = setting(1_800_000, "Unused state is dropped after this, in ms.", low=1000)
    dedup_window_ms: int = setting(
        120_000, "An event seen again within this is a duplicate, in ms; 0 turns it off.", low=0
    )
    dedup_rows: int = setting(100_000, "Most events remembered a lane.", low=0)
    max_pending_rows: int = setting(
        8192, "Rows a lane may hold unanswered before Kafka is held back.", low=1
    )
    dead_letter_limit: float = setting(
        0.5, "Share of dead letters that stops the job.", low=0.0, high=1.0
    )
    dead_letter_min_rows: int = setting(1000, "Records seen before that share counts.", low=1)
    max_value_bytes: int = setting(1_048_576, "Largest event value, in bytes.", low=1)
    start: str = setting(
        "committed",
        "Where to start without a savepoint: the group's offsets, or either end.",
        choices=("committed", "earliest", "latest"),
    )


@dataclass(frozen=True)
class BatchSettings(Section):
    """How rows become batches, and when a worker is given up on."""

    section: ClassVar[str] = "batch"
    max_rows: int = setting(256, "Most rows in a batch.", low=1, high=65_536)
    margin_ms: float = setting(2.0, "Time kept in hand before a deadline, in ms.", low=0.0)
    hop_ms: float = setting(1.0, "Time to the worker and back, in ms.", low=0.0)
    credits: int = setting(2, "Batches that may be at the worker at once.", low=1, high=64)
    stall_factor: float = setting(
        5.0, "A batch this many times slower than expected means a hung worker.", low=1.0
    )
    stall_floor_ms: float = setting(250.0, "No batch is called hung before this, in ms.", low=1.0)
    breaker_failures: int = setting(3, "Failures in a row that open the breaker.", low=1)
    breaker_open_ms: float = setting(1000.0, "Time until the breaker probes again, in ms.", low=1.0)


@dataclass(frozen=True)
class WorkerSettings(Section):
    """Where the model's worker listens."""

    section: ClassVar[str] = "worker"
    address: str = setting("unix:run/worker.sock", "`unix:PATH` or `tcp://host:port`.")
    tls_ca: str = setting("", "PEM file of authorities, for tcp.")
    tls_cert: str = setting("", "PEM file of this side's certificate, for tcp.")
    tls_key: str = setting("", "PEM file of this side's private key, for tcp.")
    threads: int = setting(1, "Threads of the model.", low=1, high=1024)


@dataclass(frozen=True)
class FlinkSettings(Section):
    """Which cluster runs the jobs."""

    section: ClassVar[str] = "flink"
    address: str = setting("localhost:8081", "REST address of the JobManager, `host:port`.")


@dataclass(frozen=True)
class LogSettings(Section):
    """How we log."""

    section: ClassVar[str] = "logs"
    format: str = setting("human", "One line of text, or of JSON.", choices=("human", "json"))
    level: str = setting(
        "INFO", "Least level that is logged.", choices=("DEBUG", "INFO", "WARNING", "ERROR")
    )


@dataclass(frozen=True)
class MetricsSettings(Section):
    """Where Prometheus may ask."""

    section: ClassVar[str] = "metrics"
    worker_port: int = setting(0, "Port of the worker; 0 turns it off.", low=0, high=65_535)
    relay_port: int = setting(0, "Port of the relay; 0 turns it off.", low=0, high=65_535)
    flink_ports: str = setting("9249-9260", "Ports of Flink's own reporter, one a process.")
