"""What a worker can do, asked of itself over its own socket: full batches, one always waiting."""

from __future__ import annotations

import time
from array import array

from bench.kit.errors import BenchError
from models.link import connect
from models.spec import ModelSpec
from models.wire import READ_BYTES, Decoder, Hello, Reply, encode_score

_TIMEOUT_S = 10.0
_BUDGET_NS = 10**10
_WARM_REPLIES = 5


def rows_per_second(address: str, spec: ModelSpec, seconds: float) -> float:
    """Rows a second of full batches, two frames under way all the time."""
    rows, columns = spec.max_rows, len(spec.features)
    block, ids = array("f", [0.5] * rows * columns).tobytes(), bytes(4 * rows)
    at_ns: list[int] = []  # of each reply
    with connect(address, _TIMEOUT_S) as sock:
        decoder, number = Decoder(), 0
        while len(at_ns) <= _WARM_REPLIES or at_ns[-1] - at_ns[_WARM_REPLIES] < seconds * 1e9:
            for message in decoder.feed(sock.recv(READ_BYTES)):
                if isinstance(message, Reply):
                    at_ns.append(time.perf_counter_ns())
                elif not isinstance(message, Hello):
                    raise BenchError(f"the worker does not score: {message}")
                for _ in range(2 if isinstance(message, Hello) else 1):
                    number += 1
                    frame = encode_score(number, block, rows, spec.row_bytes, _BUDGET_NS, ids)
                    sock.sendall(frame)
    counted = len(at_ns) - 1 - _WARM_REPLIES
    return counted * rows / ((at_ns[-1] - at_ns[_WARM_REPLIES]) / 1e9)
