"""`tidemill up`: start the local stack and leave it running."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cli.common import DEFAULT_DATA, ConfigOption, DataOption, JsonOption, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("up")(up)


def up(
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    task_managers: Annotated[
        int, typer.Option(help="TaskManagers, one slot each.", min=1, max=7)
    ] = 1,
    worker: Annotated[
        bool, typer.Option(help="Start the worker, if the settings name a model.")
    ] = True,
    relay: Annotated[
        bool, typer.Option(help="Start the relay, which delivers what Redis could not take.")
    ] = True,
    json_: JsonOption = False,
) -> None:
    """Start Kafka, Redis, Flink, worker and relay on free ports; `tidemill down` ends them."""
    from deploy.local.stack import up as start_stack
    from deploy.tools import Tools
    from deploy.topics import create_topics
    from tidemill.settings import load_settings

    base = config or (Path("tidemill.toml") if Path("tidemill.toml").is_file() else None)
    model = load_settings(base).model.path
    tools = Tools(say=lambda line: typer.echo(line, err=True))
    ours = [sys.executable, "-m", "cli.main"]
    command = [*ours, "worker"] if worker and model else None
    settings = {"model": {"path": str(Path(model).absolute())}} if model else {}
    stack = start_stack(
        data,
        task_managers=task_managers,
        worker=command,
        base=base,
        settings=settings,
        owned=False,
        tools=tools,
    )
    try:
        # no variables: an address meant for another cluster must not win over this stack's
        create_topics(load_settings(stack.settings_path, environ={}))
        if relay:
            stack.add_program("relay", [*ours, "relay"])
    except BaseException:
        stack.down()
        raise
    shown = {
        "kafka": stack.kafka,
        "redis": f"127.0.0.1:{stack.redis_port}",
        "flink": stack.flink_address,
        "worker": f"unix:{stack.plan.worker_socket}" if command else None,
        "settings": str(stack.settings_path),
        "logs": str(stack.plan.logs),
    }
    if json_:
        print_json(shown)
        return
    for line in (*tools.report()[:2], *(f"{k}: {v}" for k, v in shown.items() if v)):
        typer.echo(line)
    if command is None and worker:
        typer.echo("no worker was started: the settings name no model (model.path)")
