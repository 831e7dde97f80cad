"""`tidemill doctor`: look for what will hurt later, each finding with its remedy."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from cli.common import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    JsonOption,
    print_json,
    settings_of,
)

_COLORS = {"ok": "green", "note": "yellow", "problem": "red"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(
    data: DataOption = DEFAULT_DATA,
    services: Annotated[
        bool, typer.Option(help="Ask Kafka, Redis and Flink; --no-services looks at the machine.")
    ] = True,
    config: ConfigOption = None,
    json_: JsonOption = False,
) -> None:
    """Check machine and services; the exit status is 1 if something can't work."""
    from deploy.doctor.machine import check_machine
    from deploy.doctor.services import check_services
    from deploy.tools import Tools

    findings = check_machine(Tools(), data)
    if services:
        findings += check_services(settings_of(config, data))
    if json_:
        print_json({"findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            mark = typer.style(f"{finding.level:8}", fg=_COLORS[finding.level])
            typer.echo(f"{mark} {finding.check}: {finding.found}")
            if finding.remedy:
                typer.echo(f"         -> {finding.remedy}")
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)
