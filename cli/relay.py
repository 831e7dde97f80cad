"""`tidemill relay`: deliver from the result topic to Redis what the job did not."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer

from cli.common import ConfigOption, settings_of


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("relay")(relay)


def relay(
    metrics_host: Annotated[
        str, typer.Option(help="Address for /metrics (its port: metrics.relay_port).")
    ] = "127.0.0.1",
    config: ConfigOption = None,
) -> None:
    """Run until SIGTERM; exit status 1 if it got stuck and should be restarted."""
    from prometheus_client import start_http_server

    from models.logs import start_logging
    from operators.relay_loop import Relay
    from operators.relay_metrics import RelayMetrics

    settings = settings_of(config)
    start_logging(settings.logs.format, settings.logs.level)
    metrics = RelayMetrics()
    if settings.metrics.relay_port:
        start_http_server(settings.metrics.relay_port, metrics_host, metrics.registry)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    Relay(settings, metrics).run(stop.is_set)
