"""`tidemill status`: what runs, where its logs lie, and what is wrong."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from cli.common import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    JsonOption,
    print_json,
    settings_of,
)

if TYPE_CHECKING:
    from rich.console import Console

    from deploy.status import Status


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("status")(status)


def status(
    data: DataOption = DEFAULT_DATA, config: ConfigOption = None, json_: JsonOption = False
) -> None:
    """Show processes, jobs, topics and problems; the exit status is 1 if there is a problem."""
    from rich.console import Console

    from deploy.status import gather

    settings = settings_of(config, data)
    found = gather(settings, data)
    if json_:
        print_json(asdict(found) | {"settings": settings.as_dict()})
    else:
        _show(Console(), found)
    if found.problems:
        raise typer.Exit(1)


def _show(console: Console, found: Status) -> None:
    from rich.table import Table

    if found.processes:
        table = Table("process", "pid", "state", "MiB", "log", box=None, pad_edge=False)
        for p in found.processes:
            table.add_row(p.name, str(p.pid), "up" if p.alive else "ended", str(p.rss_mib), p.log)
        console.print(table)
        console.print(f"resident together: {sum(p.rss_mib for p in found.processes)} MiB")
    if found.slots_total is not None:
        console.print(f"Flink: {found.slots_free} of {found.slots_total} slots free")
    for job in found.jobs:
        console.print(
            f"job {job.name} ({job.id}): {job.state}, {job.checkpoints} checkpoints"
            f" ({job.failed_checkpoints} failed), {job.restarts} failures"
        )
        if job.failure:
            console.print(f"  last failure: {job.failure}", markup=False)
    for topic in found.topics:
        console.print(f"topic {topic.name}: {topic.partitions} partitions")
    for problem in found.problems:
        console.print(f"problem: {problem}", style="red", markup=False)
