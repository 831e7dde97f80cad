"""Shows the demo while it runs: a live page on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

from rich.console import Console, Group
from rich.live import Live as Page
from rich.table import Table
from rich.text import Text

from deploy.demo.live import Live, Shown
from tidemill.stages import STAGES

_LINE_EVERY_S: Final = 5.0
Say = Callable[[str], None]


class View(Protocol):
    """Something that shows a `Live`."""

    def open(self) -> AbstractContextManager[Any]:
        """While it is open it may draw."""

    def show(self, title: str, live: Live, elapsed_s: float, now_s: float) -> None:
        """Show it as it is now."""


def make_view(console: Console) -> View:
    """The page for a terminal, lines for a pipe."""
    return PageView(console) if console.is_terminal else LineView(console_printer(console))


def console_printer(console: Console) -> Say:
    """Prints lines as they are, without markup or wrapping."""

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    return say


class LineView:
    """One line every few seconds."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._next_s = 0.0

    def open(self) -> AbstractContextManager[Any]:
        """The first line comes at once."""
        self._next_s = 0.0
        return nullcontext()

    def show(self, title: str, live: Live, elapsed_s: float, now_s: float) -> None:
        """Print a line if it is time for one."""
        rate = live.rate(now_s)
        if now_s < self._next_s:
            return
        self._next_s = now_s + _LINE_EVERY_S
        p50, p99 = live.stages()["total"]
        tiers = " ".join(f"{tier} {count}" for tier, count in live.tiers.most_common())
        self._say(
            f"{title} {elapsed_s:4.0f} s: sent {live.sent}, answered {live.answered}"
            f" ({rate:.0f}/s), p50 {_ms(p50)} p99 {_ms(p99)} ms, {tiers or 'no tier yet'},"
            f" late {live.late}, dead letters {live.dead_letters}"
        )
        if live.newest:
            self._say(f"    {answer_line(live.newest[-1])}")


class PageView:
    """A page that redraws itself."""

    def __init__(self, console: Console) -> None:
        self._page = Page(console=console, auto_refresh=False, transient=True)

    def open(self) -> AbstractContextManager[Any]:
        """Take the terminal over; give it back at the end."""
        return self._page

    def show(self, title: str, live: Live, elapsed_s: float, now_s: float) -> None:
        """Redraw."""
        newest = [Text(answer_line(shown)) for shown in live.newest]
        self._page.update(
            Group(
                Text(f"tidemill demo: {title}, {elapsed_s:.0f} s", style="bold"),
                _counts(live, live.rate(now_s)),
                stage_table(live),
                Text("newest answers", style="dim"),
                *newest,
            ),
            refresh=True,
        )


def stage_table(live: Live) -> Table:
    """p50 and p99 of every stage."""
    table = Table("where the time went", "p50 ms", "p99 ms", pad_edge=False, box=None)
    for name, (p50, p99) in live.stages().items():
        style = "bold" if name == "total" else ""
        table.add_row(STAGES[name], _ms(p50), _ms(p99), style=style)
    return table


def answer_line(shown: Shown) -> str:
    """One answer: what was predicted, what really happened, who answered, how fast."""
    predicted = "-" if shown.value is None else f"{shown.value:+.1f}"
    happened = "-" if shown.label is None else f"{shown.label:+.0f}"
    return (
        f"{shown.task:16} {shown.status:8} delay {predicted:>7} min predicted,"
        f" {happened:>5} happened   tier {shown.tier:5} {shown.total_ms:7.1f} ms"
    )


def _counts(live: Live, rate: float) -> Table:
    table = Table(
        "sent", "answered", "a second", "in time", "late", "dead letters", "errors", "tiers",
        pad_edge=False, box=None,
    )  # fmt: skip
    tiers = ", ".join(f"{tier} {count}" for tier, count in live.tiers.most_common())
    table.add_row(
        str(live.sent), str(live.answered), f"{rate:.0f}", str(live.in_sla), str(live.late),
        str(live.dead_letters), str(live.errors), tiers,
    )  # fmt: skip
    return table


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
