"""`tidemill late`: the records that came behind the watermark, and how far."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.common import ConfigOption, JsonOption, print_json, settings_of
from tidemill.contracts import LATE_PREFIX


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("late")(late)


def late(
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what comes.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Newest records shown at first.")] = 20,
    config: ConfigOption = None,
    json_: JsonOption = False,
) -> None:
    """Show the newest late records; with --json one object a line."""
    from cli.kafka_tail import TopicTail

    settings = settings_of(config)
    tail = TopicTail(settings, settings.late_topic)
    try:
        for record in tail.follow(limit) if follow else tail.newest(limit):
            shown = record.shown(LATE_PREFIX)
            if json_:
                print_json(shown)
            else:
                source = f"{shown.get('topic')}[{shown.get('partition')}]@{shown.get('offset')}"
                typer.echo(
                    f"{record.place:>10}  {shown.get('lateness-ms', '?'):>10} ms late  {source}"
                    f"  key {shown['key']}"
                )
    finally:
        tail.close()
