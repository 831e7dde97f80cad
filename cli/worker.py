"""`tidemill worker`: serve a model from a folder, supervised."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from cli.common import DEFAULT_DATA, ConfigOption, settings_of
from models.logs import start_logging
from models.restart import RestartPolicy
from models.spec import load_spec
from models.supervisor import Supervisor, health_address
from models.worker_config import WorkerConfig


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("worker")(worker)


def worker(
    model: Annotated[Path | None, typer.Option(help="Folder of the model (model.path).")] = None,
    address: Annotated[
        str, typer.Option(help="unix:PATH or tcp://HOST:PORT (worker.address).")
    ] = "",
    threads: Annotated[int, typer.Option(help="Threads of the model (worker.threads).")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N, or auto.")] = "cpu",
    metrics: Annotated[
        str, typer.Option(help="tcp://HOST:PORT for /health and /metrics (metrics.worker_port).")
    ] = "",
    drain_s: Annotated[float, typer.Option(help="Longest wait for the last answers, s.")] = 5.0,
    allow_plain_tcp: Annotated[
        bool, typer.Option("--allow-plain-tcp", help="TCP without TLS, on loopback only.")
    ] = False,
    supervise: Annotated[
        bool, typer.Option(help="Watch the worker and restart it; --no-supervise runs it alone.")
    ] = True,
    config: ConfigOption = None,
) -> None:
    """Serve a model: warm every bucket, check its golden vectors, then answer until SIGTERM."""
    settings = settings_of(config)
    ours = settings.worker
    port = settings.metrics.worker_port
    worker_config = WorkerConfig(
        model=str(model or settings.model.path),
        address=address or ours.address,
        metrics=metrics or (f"tcp://127.0.0.1:{port}" if port else ""),
        tls_ca=ours.tls_ca,
        tls_cert=ours.tls_cert,
        tls_key=ours.tls_key,
        allow_plain_tcp=allow_plain_tcp,
        threads=threads or ours.threads,
        device=device,
        drain_s=drain_s,
        log_format=settings.logs.format,
        log_level=settings.logs.level,
    )
    start_logging(worker_config.log_format, worker_config.log_level)
    load_spec(Path(worker_config.model))
    health = health_address(worker_config, DEFAULT_DATA)
    if not supervise:
        command = worker_config.command()
        os.execv(command[0], command)  # noqa: S606 - our own interpreter, no shell
    raise typer.Exit(Supervisor(worker_config, RestartPolicy(), health).run())
