"""The verdict on one window, feature by feature, without memory: what would be done if it lasted.

Refuses to judge below the minimum number of rows: one leftover record must not alarm, and a silent
source is not a healthy one.  `drift.freeze` adds time to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from drift import psi
from drift.evaluate import Stats
from drift.policy import DriftPolicy


class Level(StrEnum):
    """What a window says about a feature, from nothing to the hardest."""

    INSUFFICIENT = "insufficient_data"
    UNCLEAR = "unclear"  # rows enough, but too alike to tell a high PSI from noise
    OK = "ok"
    ALERT = "alert"
    CANDIDATE = "candidate"  # a freeze, if it lasts
    UNUSABLE = "unusable"  # most values are missing, unseen or non-finite: a freeze at once


@dataclass(frozen=True, slots=True)
class Judgement:
    """One feature in one window; ``reasons`` are words for people, the strongest first."""

    level: Level
    psi: float = 0.0
    ks: float = 0.0
    """D_lo; 0 for a category, which has no order."""
    reasons: tuple[str, ...] = field(default=())
    rows: int = 0
    min_rows: float = math.inf
    psi_lift: float = 0.0
    """What all thresholds of PSI are raised by: the excess of the reference's own windows."""
    ks_lift: float = 0.0

    @property
    def judged(self) -> bool:
        """False if the window's rows are too few, or count as too few, to say anything."""
        return self.level not in (Level.INSUFFICIENT, Level.UNCLEAR)


def judge(stats: Stats | None, policy: DriftPolicy, features: int) -> list[Judgement]:
    """The verdicts on all ``features``; None for ``stats`` is a window without rows."""
    if stats is None:
        return [Judgement(Level.INSUFFICIENT, reasons=("no rows in the window",))] * features
    needed = np.maximum(stats.min_rows, policy.min_rows)
    alpha = policy.alpha(features)
    psi_lift = np.maximum(0.0, stats.psi_floor - policy.alert_psi)
    ks_lift = np.maximum(0.0, stats.ks_floor - policy.ks_alert)
    high = stats.psi >= policy.alert_psi + psi_lift
    alert = high & (stats.psi_p <= alpha)
    # rows enough, but so alike that they count as few; a fault's first panes scatter too, and it
    # must not hide itself by that: hence by the p-value of effective rows, not by their number
    unclear = high & ~alert
    candidate = alert & (stats.psi > policy.freeze_psi + psi_lift)
    candidate &= stats.psi_lower > policy.freeze_bound + psi_lift
    # a share that the reference has as well is no fault of the stream
    broken = (stats.unusable > policy.unusable_share) & (stats.unusable > 2 * stats.unusable_before)
    enough_ks = stats.ks_rows >= policy.min_rows
    ks_alert = enough_ks & (stats.ks_p <= alpha) & (stats.ks_lo >= policy.ks_alert + ks_lift)
    levels = np.select(
        [stats.rows < needed, broken, candidate, alert | ks_alert, unclear],
        [Level.INSUFFICIENT, Level.UNUSABLE, Level.CANDIDATE, Level.ALERT, Level.UNCLEAR],
        Level.OK,
    )
    distance = np.where(enough_ks, np.nan_to_num(stats.ks_lo), 0.0)
    return [
        Judgement(
            Level(str(levels[i])),
            float(stats.psi[i]),
            float(distance[i]),
            _reasons(stats, i, Level(str(levels[i])), bool(ks_alert[i]), policy),
            stats.rows,
            float(needed[i]),
            float(psi_lift[i]),
            float(ks_lift[i]),
        )
        for i in range(features)
    ]


def ks_severity(distance: float, policy: DriftPolicy) -> str:
    """``ok``, ``alert`` or ``severe`` by the size of the effect: a p-value alone says nothing of it."""
    if distance < policy.ks_alert:
        return "ok"
    return "alert" if distance < policy.ks_severe else "severe"


def judge_bins(
    ref: list[int], cur: list[int], alpha: float, min_rows: int, pseudo_count: float
) -> tuple[float, bool] | None:
    """PSI of two histograms and whether it is beyond noise at ``alpha``; None below ``min_rows``."""
    n, m = sum(cur), sum(ref)
    if min(n, m) < max(min_rows, 1):
        return None
    value = psi.psi(ref, cur, pseudo_count)
    return value, bool(psi.p_value(value, n, m, psi.kept_bins(ref, cur)) <= alpha)


def _too_few(stats: Stats, i: int, policy: DriftPolicy) -> str:
    needed = max(float(stats.min_rows[i]), policy.min_rows)
    if stats.rows < needed:
        return f"{stats.rows} rows, {needed:.0f} are needed"
    return (
        f"PSI {stats.psi[i]:.3f} may be noise: {stats.rows} rows count as"
        f" {stats.effective_rows[i]:.0f}"
    )


def _reasons(
    stats: Stats, i: int, level: Level, ks_alert: bool, policy: DriftPolicy
) -> tuple[str, ...]:
    if level is Level.OK:
        return ()
    if level in (Level.INSUFFICIENT, Level.UNCLEAR):
        return (_too_few(stats, i, policy),)
    found = []
    if level is Level.UNUSABLE:
        found.append(
            f"{stats.unusable[i]:.0%} of the values are missing, unseen or non-finite"
            f" (reference {stats.unusable_before[i]:.0%})"
        )
    if stats.psi[i] >= policy.alert_psi:
        found.append(f"PSI {stats.psi[i]:.3f} (noise up to {stats.psi_critical[i]:.3f})")
    if ks_alert:
        severity = ks_severity(float(stats.ks_lo[i]), policy)
        word = {1: "higher", -1: "lower"}.get(int(stats.ks_sign[i]), "elsewhere")
        found.append(f"KS {stats.ks_lo[i]:.3f} ({severity}), values lie {word}")
    return tuple(found)
