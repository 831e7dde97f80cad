"""`tidemill submit`: put the scoring job on a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.common import ConfigOption, JsonOption, print_json, required_config


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("submit")(submit)


def submit(
    flink: Annotated[
        str, typer.Option(help="HOST:PORT of the JobManager's REST interface (flink.address).")
    ] = "",
    savepoint: Annotated[
        str, typer.Option(help="Resume from this savepoint, as printed by tidemill stop.")
    ] = "",
    ship: Annotated[
        bool, typer.Option("--ship", help="Send our packages and jars along with the job.")
    ] = False,
    cluster_python: Annotated[
        str, typer.Option(help="Python of the TaskManagers, if not this one.")
    ] = "",
    wait: Annotated[bool, typer.Option(help="Wait until every task runs.")] = True,
    config: ConfigOption = None,
    json_: JsonOption = False,
) -> None:
    """Submit the scoring job; a running one of the same name is an error."""
    from deploy.errors import FlinkError
    from deploy.flink_rest import FlinkRest
    from deploy.submit import submit as send
    from deploy.tools import Tools
    from tidemill.settings import load_settings

    path = required_config(config)
    settings = load_settings(path)
    address = flink or settings.flink.address
    rest = FlinkRest(address)
    if running := rest.find(settings.job.name):
        raise FlinkError(
            f"{running.name} runs already as {running.id} ({running.state}): tidemill stop first,"
            " or give the job another name (job.name)"
        )
    job_id = send(
        address,
        path,
        Tools(say=lambda line: typer.echo(line, err=True)),
        savepoint=savepoint or None,
        cluster_python=cluster_python or None,
        ship=ship,
    )
    if wait:
        rest.wait_running(job_id)
    shown = {"job": job_id, "name": settings.job.name, "flink": address}
    if json_:
        print_json(shown)
    else:
        typer.echo(f"{shown['name']} {'runs' if wait else 'was submitted'} as {job_id}")
