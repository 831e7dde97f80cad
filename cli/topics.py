"""`tidemill topics`: what there is of the topics, and making those that miss."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from cli.common import ConfigOption, JsonOption, print_json, settings_of


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("topics")(topics)


def topics(
    create: Annotated[bool, typer.Option("--create", help="Make the topics that miss.")] = False,
    config: ConfigOption = None,
    json_: JsonOption = False,
) -> None:
    """List the topics of the settings with their partitions and problems."""
    from deploy.topics import create_topics, topic_states

    settings = settings_of(config)
    created = create_topics(settings) if create else []
    states = topic_states(settings)
    if json_:
        print_json({"created": created, "topics": [asdict(state) for state in states]})
        return
    for name in created:
        typer.echo(f"created {name}")
    for state in states:
        typer.echo(f"{state.role:9} {state.partitions:3}  {state.name}  {state.problem}".rstrip())
    if any(state.partitions == 0 for state in states):
        raise typer.Exit(1)
