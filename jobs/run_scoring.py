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
    settings = load_settings(parser.parse_args().config)
    env = environment(settings)
    build_scoring(env, settings)
    env.execute_async(settings.job.name)


if __name__ == "__main__":
    main()
