"""Only a machine whose AVX-512 sort is slow is started without it."""

from __future__ import annotations

import pytest

from drift.host import numpy_environment

LINES = "processor\t: 0\nvendor_id\t: {}\nmodel name\t: x: y\nflags\t\t: fpu avx2 {}\n\n"


@pytest.mark.parametrize(
    ("vendor", "flags", "expected"),
    [
        ("AuthenticAMD", "avx512f avx512bw", {"NPY_DISABLE_CPU_FEATURES": "AVX512F"}),
        ("AuthenticAMD", "sse4_2", {}),
        ("GenuineIntel", "avx512f avx512bw", {}),
    ],
)
def test_amd_cores_sort_without_avx512(vendor: str, flags: str, expected: dict[str, str]) -> None:
    assert numpy_environment(LINES.format(vendor, flags) * 2) == expected


def test_an_unknown_machine_is_left_alone() -> None:
    assert numpy_environment("") == {}
