"""Run a worker supervised, with the command line of `models.worker`, for tests."""

from __future__ import annotations

import sys
from pathlib import Path

from models.logs import start_logging
from models.restart import RestartPolicy
from models.supervisor import Supervisor, health_address
from models.worker_config import parse_command

if __name__ == "__main__":
    start_logging("human", "INFO")
    config = parse_command(sys.argv[1:])
    # A lower floor than in production, so that a test of a hung batch is short.
    policy = RestartPolicy(stall_floor_ms=1500)
    sys.exit(Supervisor(config, policy, health_address(config, Path.cwd())).run())
