"""Sends a job to a Flink cluster, local or not, and stops it again with a savepoint."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from deploy.errors import FlinkError
from deploy.flink_rest import FlinkRest
from deploy.local.render import java_module_options
from deploy.local.services import base_environment, python_path
from deploy.tools import Tools, checkout_dir

SCORING_JOB = Path("jobs") / "run_scoring.py"
_SUBMIT_TIMEOUT_S = 180.0  # 5-9 s on an idle machine
_OUR_PACKAGES = ("tidemill", "models", "drift", "operators", "jobs")


def submit(
    address: str,
    config: Path,
    tools: Tools,
    *,
    job: Path = SCORING_JOB,
    arguments: Sequence[str] = (),
    savepoint: str | None = None,
    cluster_python: str | None = None,
    ship: bool = False,
) -> str:
    """Submit a job of ours and return its id; raises FlinkError with what Flink said.

    ``address`` is the cluster's REST address. ``config`` is the settings file; it is read here, as
    the model's folder is: the cluster needs neither. ``cluster_python`` is the interpreter on the
    TaskManagers, by default this one. ``ship`` sends our packages and jars along, for a cluster that
    has none of them installed.
    """
    with tempfile.TemporaryDirectory(prefix="tidemill-submit-") as scratch:
        folder = Path(scratch)
        # elsewhere our folders mean nothing: that interpreter has its packages installed
        paths = [] if cluster_python else python_path()
        (folder / "config.yaml").write_text(_client_config(paths))
        command = ["run", "--detached", "--jobmanager", address]
        command += ["--pyClientExecutable", sys.executable]
        command += ["--pyExecutable", cluster_python or sys.executable]
        if savepoint:
            command += ["--fromSavepoint", savepoint]
        jars: list[str] = []
        if ship:
            command += ["--pyFiles", str(packed_packages(folder / "tidemill-packages.zip"))]
            jars = [f"--jar=file://{jar}" for jar in (tools.connector_jar, tools.bridge_jar)]
        command += ["--python", str(checkout_dir() / job), "--config", str(config.absolute())]
        said = _run_cli([*command, *jars, *arguments], tools, folder)
    found = re.search(r"JobID ([0-9a-f]{32})", said)
    if found is None:
        raise FlinkError(f"the job was not taken by {address}:\n{_reason(said)}")
    return found.group(1)


def stop(address: str, job_id: str, target: str | None = None) -> str:
    """Stop a job with a savepoint and return the savepoint's path."""
    return FlinkRest(address).stop(job_id, target)


def _client_config(paths: Sequence[Path]) -> str:
    config = "python.execution-mode: thread\n"
    if paths:
        config += f"python.pythonpath: {':'.join(map(str, paths))}\n"
    return config


def packed_packages(target: Path) -> Path:
    """Our packages in one zip: a folder given to Flink would itself become the root of imports."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for package in _OUR_PACKAGES:
            for source in sorted((checkout_dir() / package).rglob("*.py")):
                packed.write(source, source.relative_to(checkout_dir()))
    return target


def _run_cli(arguments: list[str], tools: Tools, folder: Path) -> str:
    """Run Flink's own command; its output holds the job's id or the reason of the refusal."""
    argv = [
        str(tools.java),
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        *java_module_options(),
        f"-Dlog.file={folder / 'client.log'}",
        "-cp",
        ":".join(map(str, tools.flink_jars)),
        "org.apache.flink.client.cli.CliFrontend",
        *arguments,
    ]
    # the job's settings are read in this command: secrets may come from its environment
    env = base_environment(keep_settings=True) | {
        "JAVA_HOME": str(tools.java_home),
        "FLINK_HOME": str(tools.flink_home),
        "FLINK_CONF_DIR": str(folder),
        "FLINK_LOG_DIR": str(folder),
        "FLINK_LIB_DIR": str(tools.flink_home / "lib"),
        "FLINK_OPT_DIR": str(tools.flink_home / "opt"),
        "FLINK_PLUGINS_DIR": str(tools.flink_home / "plugins"),
    }
    try:
        done = subprocess.run(
            argv,
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_SUBMIT_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise FlinkError(
            f"the submission took over {_SUBMIT_TIMEOUT_S:.0f} s and was ended: is the cluster"
            " overloaded, or its address not the one of a Flink?"
        ) from error
    return done.stdout + done.stderr


def _reason(said: str) -> str:
    """The lines a user needs: Python's own error if there is one, else Java's causes."""
    lines = said.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("Traceback (most recent call last)"):
            return "\n".join(lines[number:][:40])
    causes = [line for line in lines if line.startswith(("Caused by", "The program finished"))]
    return "\n".join(causes or lines[-15:])
