"""The scoring job, as `flink run` calls it."""

from __future__ import annotations

import argparse
from pathlib import Path

from jobs.kafka_io import environment
from jobs.topology import build_scoring
from tidemill.settings import load_settings


def main() -> None:
    """Load settings, wire, execute."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="settings file (TOML)")
    parser.add_argument("--jar", action="append", help="URL of a jar that the cluster lacks")
    given = parser.parse_args()
    settings = load_settings(given.config)
    env = environment(settings)
    if given.jar:
        env.add_jars(*given.jar)
    build_scoring(env, settings)
    env.execute_async(settings.job.name)


if __name__ == "__main__":
    main()
