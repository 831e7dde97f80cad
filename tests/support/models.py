"""The model of the tests on real services: answers that a test can work out, and traps.

Imported by the worker process, so it needs nothing but numpy.
"""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# Values of the feature `trap`.
NO_TRAP: Final = 0
RAISES: Final = 1
NOT_A_NUMBER: Final = 2
SLOW: Final = 3

# Long enough for a whole burst of records to gather behind it, even on a busy machine.
SLOW_S: Final = 0.4


def score(block: NDArray[np.float32]) -> NDArray[np.float32]:
    """Outputs `total` = a + 2 b and `difference` = a - b."""
    a, b, trap = block[:, 0], block[:, 1], block[:, 2]
    if (trap == RAISES).any():
        raise ValueError("a row of this batch is poison")
    if (trap == SLOW).any():
        time.sleep(SLOW_S)
    outputs = np.stack([a + 2 * b, a - b], axis=1).astype(np.float32)
    outputs[trap == NOT_A_NUMBER, 1] = np.nan
    return outputs


def expected(a: float, b: float) -> dict[str, Any]:
    """The outputs of the full tier."""
    return {"total": a + 2 * b, "difference": a - b}
