"""What the environment says of a run: how long, and on which settings."""

from __future__ import annotations

import os
from pathlib import Path


def seconds(usual_s: float) -> float:
    """``usual_s``, or what BENCH_SECONDS says."""
    return float(os.environ.get("BENCH_SECONDS", usual_s))


def shortened() -> bool:
    """Whether this run only tries the benches out: its figures mean nothing."""
    return "BENCH_SECONDS" in os.environ


def own_settings() -> Path | None:
    """The settings file that BENCH_SETTINGS names, to try out what other settings would bring."""
    path = os.environ.get("BENCH_SETTINGS")
    return Path(path).absolute() if path else None
