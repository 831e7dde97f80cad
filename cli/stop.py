"""`tidemill stop`: stop the scoring job with a savepoint."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.common import ConfigOption, JsonOption, print_json, settings_of


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("stop")(stop)


def stop(
    job: Annotated[
        str, typer.Option(help="Id of the job; else the one named job.name that runs.")
    ] = "",
    savepoint_dir: Annotated[
        str, typer.Option(help="Folder of the savepoint, if not the cluster's default.")
    ] = "",
    no_savepoint: Annotated[
        bool,
        typer.Option("--no-savepoint", help="Cancel; rows that are not answered yet are lost."),
    ] = False,
    flink: Annotated[
        str, typer.Option(help="HOST:PORT of the JobManager's REST interface (flink.address).")
    ] = "",
    config: ConfigOption = None,
    json_: JsonOption = False,
) -> None:
    """Stop with a savepoint and print its path, which `tidemill submit --savepoint` takes."""
    from deploy.errors import FlinkError
    from deploy.flink_rest import FlinkRest

    settings = settings_of(config)
    rest = FlinkRest(flink or settings.flink.address)
    found = None if job else rest.find(settings.job.name)
    job_id = job or (found.id if found else "")
    if not job_id:
        raise FlinkError(f"no job named {settings.job.name} runs on {rest.address}: see status")
    path: str | None = None
    if no_savepoint:
        rest.cancel(job_id)
    else:
        path = rest.stop(job_id, savepoint_dir or None)
    if json_:
        print_json({"job": job_id, "savepoint": path})
    else:
        typer.echo(
            f"stopped {job_id}" + (f"; savepoint {path}" if path else " without a savepoint")
        )
