"""The `tidemill` command. Each command is a module that is imported when it is called for.

Help lists all of them; a call pays only for its own imports. Errors of ours end a command with one
line and an exit status that tells what to do: 2 fix the call or the settings, 1 look at the service.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from tidemill.errors import InvalidEvent, SettingsError, TidemillError

# name of the command -> module that registers it; the order of the help page
COMMANDS = {
    "demo": "cli.demo",
    "up": "cli.up",
    "down": "cli.down",
    "status": "cli.status",
    "doctor": "cli.doctor",
    "topics": "cli.topics",
    "init": "cli.init",
    "train": "cli.train",
    "replay": "cli.replay",
    "submit": "cli.submit",
    "stop": "cli.stop",
    "worker": "cli.worker",
    "relay": "cli.relay",
    "predict": "cli.predict",
    "results": "cli.results",
    "late": "cli.late",
    "dlq": "cli.dlq",
}


class LazyGroup(TyperGroup):
    """Looks a command up in COMMANDS and imports its module only then.

    Typer carries its own copy of click, whose types it does not publish: hence Any.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """All commands, in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and build one command; None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        registered = typer.Typer(add_completion=False, no_args_is_help=True)
        importlib.import_module(COMMANDS[cmd_name]).register(registered)
        command = typer.main.get_command(registered)
        if isinstance(command, TyperGroup) and cmd_name in command.commands:
            return command.commands[cmd_name]
        return command

    def invoke(self, ctx: Any) -> Any:
        """Run the command; one of our errors becomes one line and an exit status."""
        try:
            return super().invoke(ctx)
        except TidemillError as error:
            typer.secho(f"error: {error}", fg=typer.colors.RED, err=True)
            fix_the_call = isinstance(error, (SettingsError, InvalidEvent))
            raise typer.Exit(2 if fix_the_call else 1) from error
        except KeyboardInterrupt:
            sys.exit(130)


app = typer.Typer(
    cls=LazyGroup,
    name="tidemill",
    help="Scores events from Kafka with a torch model and answers their callers in milliseconds.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals may hold secrets
)


@app.callback()
def _commands() -> None:
    """Score events from Kafka with a torch model and answer their callers in milliseconds."""


if __name__ == "__main__":
    app()
