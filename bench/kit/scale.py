"""How long benches measure: `BENCH_SECONDS` shortens them, to see that they run at all."""

from __future__ import annotations

import os


def seconds(usual_s: float) -> float:
    """``usual_s``, or what BENCH_SECONDS says."""
    return float(os.environ.get("BENCH_SECONDS", usual_s))


def shortened() -> bool:
    """Whether this run only tries the benches out: its figures mean nothing."""
    return "BENCH_SECONDS" in os.environ
