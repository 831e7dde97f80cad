"""`tidemill down`: end the local stack, also one that a crash left behind."""

from __future__ import annotations

import typer

from cli.common import DEFAULT_DATA, DataOption, JsonOption, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("down")(down)


def down(data: DataOption = DEFAULT_DATA, json_: JsonOption = False) -> None:
    """End every process of the stack; its data stay in the folder."""
    from deploy.local.ending import down as end_stack

    killed = end_stack(data)
    if json_:
        print_json({"killed": killed})
    else:
        typer.echo(f"had to be killed: {', '.join(killed)}" if killed else "nothing runs any more")
