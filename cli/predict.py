"""`tidemill predict`: send one event, wait, show the answer and where its time went."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.common import ConfigOption, JsonOption, print_json, settings_of
from tidemill.answer import Answer
from tidemill.errors import InvalidEvent
from tidemill.stages import STAGES, where_time_went


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("predict")(predict)


def predict(
    event: Annotated[
        str, typer.Argument(help="The event as JSON, @FILE, or - for standard input.")
    ] = "",
    feature: Annotated[
        list[str] | None, typer.Option("--feature", "-f", help="NAME=VALUE instead of an event.")
    ] = None,
    key: Annotated[str, typer.Option(help="Record key; else the event's id (event.id).")] = "",
    task_id: Annotated[str, typer.Option(help="Task id; else named after the event.")] = "",
    timeout: Annotated[float, typer.Option(help="Deadline, seconds from now.")] = 5.0,
    config: ConfigOption = None,
    json_: JsonOption = False,
) -> None:
    """Send one event and wait for its answer; exit status 1 if it could not be scored."""
    from tidemill.client import Tidemill

    with Tidemill(settings_of(config)) as client:
        sent = time.time() * 1000
        answer = client.predict(
            read_event(event) if event else None,
            features=read_features(feature) if feature else None,
            key=key or None,
            task_id=task_id or None,
            timeout_s=timeout,
        )
        stages = where_time_went(answer, sent, time.time() * 1000)
    if json_:
        print_json(answer.as_dict() | {"stages_ms": stages})
    else:
        _show(answer, stages)
    if not answer.ok:
        raise typer.Exit(1)


def read_event(text: str) -> dict[str, Any]:
    """The event of the command line; raises InvalidEvent if it is not a JSON object."""
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        event = json.loads(text)
    except (OSError, ValueError) as error:
        raise InvalidEvent(f"the event can't be read: {error}") from error
    if not isinstance(event, dict):
        raise InvalidEvent(f"the event must be a JSON object, not {type(event).__name__}")
    return event


def read_features(pairs: list[str]) -> dict[str, Any]:
    """Features from NAME=VALUE; a value that is no JSON is a text."""
    features: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InvalidEvent(f"--feature {pair!r} must be NAME=VALUE")
        try:
            features[name] = json.loads(text)
        except ValueError:
            features[name] = text
    return features


def _show(answer: Answer, stages: dict[str, float]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    outputs = ", ".join(f"{name} = {value:g}" for name, value in (answer.outputs or {}).items())
    console.print(f"[bold]{answer.status}[/] by tier {answer.tier}  {outputs}", highlight=False)
    if answer.reason:
        console.print(f"{answer.reason}: {answer.message or ''}", markup=False)
    console.print(
        f"task {answer.task}  model {answer.model} {answer.model_version}  "
        f"{'inside' if answer.in_sla else 'not inside'} its deadline",
        markup=False,
    )
    table = Table("where its time went", "ms")
    for name, value in stages.items():
        table.add_row(STAGES[name], f"{value:.1f}", style="bold" if name == "total" else "")
    console.print(table)
