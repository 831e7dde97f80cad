"""Resident memory of the whole stack after five minutes at 500 orders/s, and whether it grows.

Kafka, Redis, JobManager, TaskManager, worker with its supervisor, and relay; not this load
generator. Pages that processes share are counted once (Pss). The slope is that of the second half
(Theil-Sen), so that what is filled once, heaps and caches, does not count as growth. Redis keeps
every answer for longer than the run takes: its growth is the answers', so each process is told apart.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.kit.load import Load
from bench.kit.memory import sampling, total, totals
from bench.kit.models import write_torch_model
from bench.kit.scale import seconds
from bench.kit.stack import bench_stack
from bench.kit.stats import theil_sen
from bench.report import Report

RATE = 500.0
MEASURED_S = 300.0
SAMPLE_S = 5.0


def run(report: Report) -> None:
    """Goal: memory.total < 5000 (MB)."""
    span_s = seconds(MEASURED_S)
    with tempfile.TemporaryDirectory(prefix="tidemill-model-") as folder:
        write_torch_model(Path(folder))
        with bench_stack(report, Path(folder)) as stack:
            stack.start_relay()
            report.note(
                f"{span_s:g} s at {RATE:g}/s; answers stay {stack.settings.redis.ttl_s} s in Redis"
            )
            with sampling(stack.stack, min(SAMPLE_S, span_s / 10)) as samples:
                load = Load(stack.settings).run(RATE, span_s)
            everyone = load.numbers_after(0.0)
            report.value("answered", load.answered(everyone), "percent")
    sizes = samples[-1][1]
    report.value("total", total(sizes), "MB")
    late = samples[len(samples) // 2 :]
    report.value("slope", theil_sen(totals(late)), "MB/min")
    for name in sorted(sizes):
        report.value(name, sizes[name], "MB")
        of_one = [(at_s / 60, mb[name]) for at_s, mb in late if name in mb]
        report.value(f"{name}.slope", theil_sen(of_one), "MB/min")
