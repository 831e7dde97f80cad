"""How to start Python on a machine so that numpy sorts as fast as it can there.

Counting into cells is mostly sorting.  numpy 2 sorts float32 with AVX-512 where there is one, by
compressing into memory, which AMD's cores do in microcode: 10,000 values take 139 us there and 37 us
with AVX2.  The choice is made when numpy is imported, so only the environment can make another.
"""

from __future__ import annotations

from typing import Final

VARIABLE: Final = "NPY_DISABLE_CPU_FEATURES"
_FEATURES: Final = "AVX512F"  # and so all that builds on it, the sort among them


def numpy_environment(cpuinfo: str) -> dict[str, str]:
    """Variables to start Python with; ``cpuinfo`` is the text of /proc/cpuinfo.

    Empty where nothing is to be gained.  Never names a feature that the machine lacks: numpy warns.
    """
    fields = {
        name.strip(): value
        for name, _, value in (line.partition(":") for line in cpuinfo.splitlines())
    }
    is_amd = fields.get("vendor_id", "").strip() == "AuthenticAMD"
    flags = set(fields.get("flags", "").split())
    return {VARIABLE: _FEATURES} if is_amd and "avx512f" in flags else {}
