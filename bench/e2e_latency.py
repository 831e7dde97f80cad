"""From produce to callback, open loop, on a real stack that shares this machine with its load.

`direct` is a call of the same model in this process; `hops` is what no design avoids: producer ->
broker -> a bare consumer in another process -> SET and PUBLISH in Redis -> this process. Both are
measured in the same run as the latencies, and `120.over` is what our pipeline adds to them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from bench.kit import missing
from bench.kit.answers import is_full, kinds, values
from bench.kit.errors import BenchError
from bench.kit.load import Load, Run
from bench.kit.models import FEATURES, write_torch_model
from bench.kit.scale import seconds, shortened
from bench.kit.stack import BenchStack, bench_stack
from bench.kit.stats import quantile
from bench.kit.warm import warm_up
from bench.report import Report
from models.load import load_model
from models.spec import load_spec

RATES = (120, 500, 2000, 16_000)
MEASURED_S = 12.0
CALLS, WARM_CALLS = 2000, 500
HOPS_TOPIC = "bench.hops"


def run(report: Report) -> None:
    """Goals: 2000.p50 <= 7, 2000.p99 <= 20, 16000.p99 <= 40, 120.over <= 3 (ms)."""
    with tempfile.TemporaryDirectory(prefix="tidemill-model-") as folder:
        model = Path(folder)
        write_torch_model(model)
        direct_ms = _direct_ms(model)
        overlay = {"redis": {"ttl_s": 300}}
        with bench_stack(report, model, overlay) as stack:
            _measure(report, stack, direct_ms)


def _measure(report: Report, stack: BenchStack, direct_ms: float) -> None:
    span_s = seconds(MEASURED_S)
    lead_in_s = max(1.0, span_s / 3)
    report.note(
        f"{span_s:g} s a rate after {lead_in_s:g} s of the same; broker, Redis, Flink, worker and"
        " this generator share the cores, no relay runs; latency counts from the call of produce()"
    )
    load = Load(stack.settings)
    warm_up(report, load, top_rate=max(RATES))
    report.value("direct.p50", direct_ms, "ms")
    hops_ms = _hops(report, stack, load, span_s)
    for rate in RATES:
        run_ = load.run(rate, lead_in_s + span_s)
        p50_ms = _tell(report, stack, run_, lead_in_s)
        if rate == RATES[0]:
            report.value(f"{rate}.over", p50_ms - direct_ms - hops_ms, "ms")


def _tell(report: Report, stack: BenchStack, run_: Run, lead_in_s: float) -> float:
    rate = f"{run_.schedule.rate:g}"
    numbers = run_.numbers_after(lead_in_s)
    latencies_ms = run_.latencies_ms(numbers)
    p50_ms = quantile(latencies_ms, 0.5)
    report.value(f"{rate}.p50", p50_ms, "ms")
    report.value(f"{rate}.p99", quantile(latencies_ms, 0.99), "ms")
    report.value(f"{rate}.max", latencies_ms[-1], "ms")
    report.value(f"{rate}.answered", run_.answered(numbers), "percent")
    if line := missing.tell(stack.settings, run_, numbers):
        report.note(line)
    found = [value for _, value in values(stack.redis, stack.settings.prefix, run_, numbers)]
    full = 100 * sum(map(is_full, found)) / len(numbers)
    report.value(f"{rate}.full", full, "percent")
    if full < 100:
        report.note(f"answers at {rate}/s: {kinds(found)}")
    report.value(f"{rate}.behind.p99", quantile(run_.behind_ms(numbers), 0.99), "ms")
    return p50_ms


def _direct_ms(model: Path) -> float:
    """Median of one order's score by the same model in this process."""
    scorer = load_model(model, load_spec(model))
    block = np.random.default_rng(1).normal(size=(1, len(FEATURES))).astype(np.float32)
    spans_ns = []
    for _ in range(WARM_CALLS + CALLS):
        start_ns = time.perf_counter_ns()
        scorer.run(block)
        spans_ns.append(time.perf_counter_ns() - start_ns)
    return median(spans_ns[WARM_CALLS:]) / 1e6


def _hops(report: Report, stack: BenchStack, load: Load, span_s: float) -> float:
    stack.make_topic(HOPS_TOPIC)
    command = [sys.executable, "-m", "bench.kit.echo", str(stack.stack.settings_path), HOPS_TOPIC]
    echo = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        if echo.stdout is None or echo.stdout.readline() != b"ready\n":
            raise BenchError("the program that answers the bare hops did not start")
        if not shortened():
            load.run(RATES[0], 3.0, topic=HOPS_TOPIC)
        run_ = load.run(RATES[0], span_s, topic=HOPS_TOPIC, keep_payloads=True)
    finally:
        echo.kill()
        echo.communicate()
    kafka_ms = sorted((float(at) - run_.sent_s[n]) * 1000 for n, at in run_.payloads.items())
    hops_ms = quantile(run_.latencies_ms(run_.numbers_after(0.0)), 0.5)
    report.value("hops.p50", hops_ms, "ms")
    report.value("hops.kafka.p50", quantile(kafka_ms, 0.5), "ms")
    return hops_ms
