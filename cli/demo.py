"""`tidemill demo`: real orders through the whole path on a real local stack, counted at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.common import print_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    seconds: Annotated[
        float,
        typer.Option(
            min=2, max=3600, envvar="DEMO_SECONDS",
            help="How long orders are sent; starting and counting take about a minute more.",
        ),
    ] = 60,
    rate: Annotated[float, typer.Option(min=10, max=2000, help="Orders a second.")] = 200,
    data: Annotated[Path, typer.Option(help="Folder for everything it makes.")] = Path("run/demo"),
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the stack running for a look around.")
    ] = False,
) -> None:  # fmt: skip
    """Score real orders through Kafka, Flink, a torch worker and Redis; last line: one JSON object.

    Exit status 1 if an order was lost or answered twice, 130 if it was interrupted.
    """
    from rich.console import Console

    from deploy.demo.run import Options, run_demo

    code, report = run_demo(Options(seconds, rate, data, keep), Console())
    print_json(report.as_dict())
    if code:
        raise typer.Exit(code)
