"""Put the parts of a worker together: model, engine, health, door, server.

Decides: the order in which they start. Must not know: exit codes, the command line.
"""

from __future__ import annotations

import gc
import logging
import signal
import socket
import time
from contextlib import ExitStack
from pathlib import Path

from models.address import TlsFiles, parse_address
from models.door import Door, listen
from models.engine import DevicePoisonedError, Engine
from models.golden import GoldenMismatchError, load_golden
from models.health import serving_health
from models.load import ModelLoadError, load_model
from models.messages import Hello
from models.metrics import WorkerMetrics, resident_bytes
from models.progress import Progress
from models.server import Server
from models.spec import ModelSpec
from models.warm import warm_up
from models.wire import encode_hello
from models.worker_config import WorkerConfig

log = logging.getLogger(__name__)


def serve(config: WorkerConfig, spec: ModelSpec) -> None:
    """Serve until drained.

    Raises GoldenMismatchError, ModelLoadError, DevicePoisonedError, or OSError if an address is taken.
    """
    progress = Progress(spec.name, spec.version, progress_ns=time.monotonic_ns())
    metrics = WorkerMetrics(progress, config.restarts)
    with ExitStack() as stack:
        for where in filter(None, (config.health, config.metrics)):
            stack.enter_context(serving_health(parse_address(where), metrics))
        engine = _ready_engine(config, spec, metrics)
        server = Server(engine, metrics, config.credits, config.drain_s)
        listener = listen(parse_address(config.address))
        tls = TlsFiles.from_settings(config.tls_ca, config.tls_cert, config.tls_key)
        door = Door(listener, tls, _hello(config, spec, progress), metrics, server.adopt)
        stack.callback(door.close)
        server.drain_on(signal.SIGTERM, signal.SIGINT)
        door.open()
        progress.progress_ns = time.monotonic_ns()
        progress.ready = True
        _log_ready(spec, progress, listener)
        server.serve(door.close)


def _log_ready(spec: ModelSpec, progress: Progress, listener: socket.socket) -> None:
    log.info(
        "READY: model %s %s on %s, %d MB resident, us per batch: %s",
        spec.name,
        spec.version,
        listener.getsockname(),
        resident_bytes() // 1_000_000,
        progress.service_us,
    )


def _ready_engine(config: WorkerConfig, spec: ModelSpec, metrics: WorkerMetrics) -> Engine:
    folder = Path(config.model)
    golden = load_golden(folder)
    if golden is None and spec.kind == "torch":
        raise GoldenMismatchError(f"{folder} has no golden vectors: export the model again")
    model = load_model(folder, spec, config.device, config.threads)
    try:
        metrics.progress.service_us.update(warm_up(spec, model, golden))
    except (GoldenMismatchError, DevicePoisonedError):
        raise
    except Exception as error:
        raise ModelLoadError(f"warm-up raised {type(error).__name__}: {error}") from error
    gc.collect()
    gc.freeze()
    return Engine(spec, model, metrics)


def _hello(config: WorkerConfig, spec: ModelSpec, progress: Progress) -> bytes:
    return encode_hello(
        Hello(
            model=spec.name,
            version=spec.version,
            features=spec.feature_names,
            outputs=spec.output_names,
            buckets=list(spec.buckets),
            service_us=progress.service_us,
            max_rows=spec.max_rows,
            credits=config.credits,
            schema_id=spec.schema_id,
        )
    )
