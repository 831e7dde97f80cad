"""What is said at the end, before the last line."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.demo.live import Live
from deploy.demo.tally import Report
from tidemill.settings import Settings
from tidemill.stages import STAGES


def summary(report: Report, live: Live, settings: Settings) -> Iterator[str]:
    """Lines for a reader: what was seen."""
    tiers = ", ".join(f"{tier} {count}" for tier, count in report.tiers.items() if count)
    yield (
        f"{report.sent} orders, {report.answered} answered, {report.in_sla} of them scored within"
        f" {settings.job.sla_ms} ms (tiers: {tiers})"
    )
    yield f"produce to callback: p50 {report.p50_ms} ms, p99 {report.p99_ms} ms; of the last ones:"
    for name, (p50, p99) in live.stages().items():
        if p50 is not None and name != "total":
            yield f"    {STAGES[name]:32} p50 {p50:6.1f}  p99 {p99:6.1f} ms"
    if report.lateness_ms is not None:
        least_s, most_s = (ms / 1000 for ms in report.lateness_ms)
        yield (
            f"{report.late} orders came {least_s:.0f} to {most_s:.0f} s behind the watermark:"
            f" answered `late`, each kept on {settings.late_topic}"
        )
    reasons = ", ".join(f"{reason} {count}" for reason, count in report.reasons.items())
    yield f"{report.dead_letters} dead letters on {settings.dlq_topic}: {reasons or 'none'}"
    if report.mean_error is not None:
        yield f"mean error of the predictions: {report.mean_error:.1f} min, on days never seen"
    for problem in report.problems:
        yield f"PROBLEM: {problem}"
