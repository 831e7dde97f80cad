"""Reads the repository's pages: links, code blocks, tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")
_ROW = re.compile(r"^\|(.+)\|$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block and its language."""

    language: str
    text: str


def read(page: Path) -> str:
    """The text of a page."""
    return page.read_text(encoding="utf-8")


def blocks(page: Path, *languages: str) -> Iterator[Block]:
    """Fenced blocks of the given languages."""
    for language, text in _FENCE.findall(read(page)):
        if language in languages:
            yield Block(language, text)


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", read(page))


def inline_code(page: Path) -> list[str]:
    """What stands between single backticks outside of fenced blocks."""
    return _CODE.findall(prose(page))


def links(page: Path) -> list[str]:
    """Targets of links within the repository."""
    return [target for target in _LINK.findall(prose(page)) if "://" not in target]


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.strip().replace(" ", "-") for heading in plain}


def section(page: Path, heading: str) -> str:
    """The text under a heading of the second level."""
    after = read(page).split(f"\n## {heading}\n", 1)
    assert len(after) == 2, f"{page.name} has no section {heading!r}"
    return after[1].split("\n## ", 1)[0]


def table(text: str) -> list[list[str]]:
    """Cells of all rows of the tables in ``text`` whose first cell is code."""
    rows = [[cell.strip() for cell in row.split("|")] for row in _ROW.findall(text)]
    return [row for row in rows if row[0].startswith("`")]
