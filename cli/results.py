"""`tidemill results`: the answers on the result topic, as they come."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.common import ConfigOption, JsonOption, print_json, settings_of
from tidemill.answer import Answer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("results")(results)


def results(
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what comes.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Newest answers shown at first.")] = 20,
    config: ConfigOption = None,
    json_: JsonOption = False,
) -> None:
    """Show the newest answers; with --json one object a line."""
    from cli.kafka_tail import TopicTail

    settings = settings_of(config)
    tail = TopicTail(settings, settings.topics.results)
    try:
        for record in tail.follow(limit) if follow else tail.newest(limit):
            answer = Answer.from_json(record.value or b"")
            if json_:
                print_json(answer.as_dict())
            else:
                typer.echo(_line(answer))
    finally:
        tail.close()


def _line(answer: Answer) -> str:
    value = "" if answer.value is None else f"{answer.value:g}"
    mark = "" if answer.in_sla or not answer.ok else "  over its deadline"
    why = f"  {answer.reason}: {answer.message or ''}" if answer.reason else ""
    return (
        f"{answer.task:36}  {answer.status:8}  {answer.tier:5}  {value:>10}"
        f"  {answer.total_ms:>6} ms{mark}{why}"
    )
