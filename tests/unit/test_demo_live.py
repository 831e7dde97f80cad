"""What the demo shows while it runs."""

from __future__ import annotations

import io

from rich.console import Console

from deploy.demo.live import NEWEST, Live
from deploy.demo.view import LineView, PageView, answer_line, make_view
from tests.unit.test_demo_tally import answer, late_answer
from tidemill.answer import Answer


def fed(answers: int) -> Live:
    """Each answer took 1 ms longer than the one before; the job's part is always 10 ms."""
    live = Live(sent=answers)
    for i in range(answers):
        live.add(Answer.from_json(answer(f"order-{i}")), 5.0, 25.0 + i, label=3.0)
    return live


def test_counts_follow_the_answers() -> None:
    live = fed(20)
    live.add(Answer.from_json(late_answer("order-20")), 5.0, 30.0, label=None)
    live.add(Answer.from_json(answer("order-21", status="error", tier="none")), 5.0, 30.0, None)
    assert (live.answered, live.in_sla, live.late, live.errors) == (22, 20, 1, 1)
    assert live.tiers == {"full": 20, "none": 2}


def test_stages_are_of_scored_answers_and_never_negative() -> None:
    live = fed(100)
    live.add(Answer.from_json(late_answer("late")), 5.0, 9000.0, label=None)
    live.add(Answer.from_json(answer("early", ingest_ms=4)), 5.0, 25.0, label=None)
    stages = live.stages()
    assert stages["total"] == (69.0, 118.0)
    assert stages["to_job"] == (5.0, 5.0)
    assert stages["service"] == (1.0, 1.0)
    only_early = Live()
    only_early.add(Answer.from_json(answer("early", ingest_ms=4)), 5.0, 25.0, label=None)
    assert only_early.stages()["to_job"] == (0.0, 0.0)


def test_without_answers_there_are_no_percentiles() -> None:
    assert set(Live().stages().values()) == {(None, None)}


def test_the_recent_p99_is_of_the_last_answers_alone() -> None:
    assert fed(9).recent_p99(10) is None
    slow_then_fast = fed(100)
    for i in range(10):
        slow_then_fast.add(Answer.from_json(answer(f"fast-{i}")), 5.0, 21.0, label=None)
    assert slow_then_fast.recent_p99(10) == 16.0


def test_the_rate_is_of_the_last_seconds() -> None:
    live = Live()
    assert live.rate(0.0) == 0.0
    for second in range(1, 30):
        live.answered += 100 if second < 15 else 200
        rate = live.rate(float(second))
    assert rate == 200.0


def test_only_the_newest_answers_are_kept() -> None:
    assert [shown.task for shown in fed(50).newest] == [
        f"order-{i}" for i in range(50 - NEWEST, 50)
    ]


def test_an_answer_is_one_line() -> None:
    line = answer_line(fed(1).newest[0])
    assert "order-0" in line
    assert "+5.0 min predicted" in line
    assert "+3 happened" in line


def test_lines_come_at_once_and_then_now_and_then() -> None:
    out = io.StringIO()
    view = make_view(Console(file=out, width=40))
    assert isinstance(view, LineView)
    with view.open():
        for second in range(12):
            view.show("[orders]", fed(10), float(second), float(second))
    lines = out.getvalue().splitlines()
    assert len(lines) == 6  # three times a line of counts and an answer, none of them wrapped
    assert "[orders]    5 s: sent 10, answered 10" in lines[2]
    assert "p50 24.0 p99 29.0 ms" in lines[2]


def test_a_terminal_gets_a_page_that_leaves_no_trace() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120)
    view = make_view(console)
    assert isinstance(view, PageView)
    with view.open():
        view.show("orders", fed(10), 1.0, 1.0)
        drawn = out.getvalue()
    for part in ("orders, 1 s", "where the time went", "order-9", "dead letters"):
        assert part in drawn
    assert out.getvalue().count("\x1b[2K") > 10  # its lines are erased again
