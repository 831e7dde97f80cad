"""Resident memory of processes with all their descendants, read from /proc."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_mib(pids: Iterable[int]) -> dict[int, int]:
    """MiB by pid, each with its children's: a supervisor counts with what it supervises."""
    children: dict[int, list[int]] = defaultdict(list)
    pages: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (found := _parent_and_pages(entry)):
            pid = int(entry.name)
            children[found[0]].append(pid)
            pages[pid] = found[1]
    return {pid: _sum(pid, children, pages) * _PAGE_BYTES >> 20 for pid in pids}


def _sum(pid: int, children: dict[int, list[int]], pages: dict[int, int]) -> int:
    return pages.get(pid, 0) + sum(_sum(child, children, pages) for child in children.get(pid, ()))


def _parent_and_pages(entry: Path) -> tuple[int, int] | None:
    try:
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1]), int(fields[21])
