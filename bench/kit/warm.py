"""Warm-up: the first 10 to 30 s of a TaskManager are many times slower, and are measured by nobody."""

from __future__ import annotations

from bench.kit.load import Load
from bench.kit.scale import shortened
from bench.kit.stats import quantile
from bench.report import Report

_RATE = 2000.0
_ROUND_S = 4.0
_MIN_ROUNDS, _MAX_ROUNDS = 5, 15
_STEADY = 0.1  # a p50 within this share of the best so far is steady


def warm_up(report: Report, load: Load, *, top_rate: float = _RATE, deadline_ms: int = 0) -> None:
    """Rounds at 2,000/s until their p50 falls no more, every other one at ``top_rate``."""
    rounds = 2 if shortened() else _MAX_ROUNDS
    round_s = 2.0 if shortened() else _ROUND_S
    seen: list[float] = []
    for number in range(rounds):
        if number % 2 == 0 and top_rate != _RATE:
            load.run(top_rate, round_s, deadline_ms=deadline_ms)
        run = load.run(min(_RATE, top_rate), round_s, deadline_ms=deadline_ms)
        seen.append(quantile(run.latencies_ms(run.numbers_after(0.0)), 0.5))
        if number + 1 >= _MIN_ROUNDS and seen[-1] > (1 - _STEADY) * min(seen[:-1]):
            break
    report.note(
        f"warm after {len(seen)} rounds; their p50: {', '.join(f'{p:.1f}' for p in seen)} ms"
    )
