"""Make a loaded model ready: run every bucket, measure it, compare it with the golden vectors.

Decides: READY or not. Must not know: sockets, torch.
"""

from __future__ import annotations

import time
from statistics import median

import numpy as np

from models.engine import BatchModel
from models.golden import Golden
from models.merge import checked
from models.spec import ModelSpec

WARM_RUNS = 3  # the first calls allocate and choose kernels
MEASURE_RUNS = 15
MEASURE_NS = 300_000_000  # a slow model isn't run 15 times per bucket


def warm_up(spec: ModelSpec, model: BatchModel, golden: Golden | None) -> dict[int, int]:
    """Measured time of one batch of each bucket, us (median).

    Raises GoldenMismatchError, or whatever the model raises. Largest bucket first, so that memory is
    taken once.
    """
    service_us: dict[int, int] = {}
    for bucket in sorted(spec.buckets, reverse=True):
        service_us[bucket] = _warm_bucket(spec, model, golden, bucket)
    return dict(sorted(service_us.items()))


def _warm_bucket(spec: ModelSpec, model: BatchModel, golden: Golden | None, bucket: int) -> int:
    expected = golden.tiled(bucket) if golden else None
    shape = (bucket, len(spec.features))
    block = expected.inputs.copy() if expected else np.zeros(shape, np.float32)
    outputs = checked(model.run(block), bucket, len(spec.outputs))
    if expected:
        expected.check(outputs, f"model {spec.name} {spec.version}, bucket {bucket}")
    end_ns = time.monotonic_ns() + MEASURE_NS
    for _ in range(WARM_RUNS - 1):
        model.run(block)
    spans: list[int] = []
    while not spans or (len(spans) < MEASURE_RUNS and time.monotonic_ns() < end_ns):
        start_ns = time.monotonic_ns()
        model.run(block)
        spans.append(time.monotonic_ns() - start_ns)
    return max(1, round(median(spans) / 1000))
