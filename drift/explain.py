"""One feature of one window, for people: which bins moved, and where the distributions part."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from drift import ks, psi
from drift.evaluate import Stats
from drift.reference import Reference

TOP: Final = 3


@dataclass(frozen=True, slots=True)
class BinShare:
    """A coarse bin: its shares in reference and window, labelled, since PSI alone is symmetric."""

    label: str
    reference: float
    window: float
    contribution: float
    """Nats; all bins of a feature add up to its PSI."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """KS values are None for a category."""

    feature: str
    psi: float
    psi_p: float
    psi_critical: float
    psi_lower: float
    psi_present: float
    """PSI of the finite, known values alone: next to ``psi`` it tells a fault of delivery apart."""
    ks_lo: float | None
    ks_hi: float | None
    ks_p: float | None
    ks_at: float | None
    """Value at which the distributions differ most."""
    ks_sign: int
    rows: int
    effective_rows: float
    dispersion: float
    reference_rows: float
    missing: float
    unseen: float
    non_finite: float
    bins: tuple[BinShare, ...]

    @property
    def top(self) -> tuple[BinShare, ...]:
        """The bins that add most, the largest first."""
        order = psi.top_bins([one.contribution for one in self.bins], TOP)
        return tuple(self.bins[i] for i in order)


def explain(stats: Stats, reference: Reference, feature: int) -> Explanation:
    """Everything about the ``feature``-th feature of a window."""
    labels = reference.labels(feature)
    shares = zip(
        labels,
        stats.ref_shares[feature].tolist(),
        stats.cur_shares[feature].tolist(),
        stats.contributions[feature].tolist(),
        strict=False,  # the arrays are padded to the feature with most bins
    )
    ordered = bool(stats.ordered[feature])
    edges = reference.edges[feature]
    return Explanation(
        feature=reference.names[feature],
        psi=float(stats.psi[feature]),
        psi_p=float(stats.psi_p[feature]),
        psi_critical=float(stats.psi_critical[feature]),
        psi_lower=float(stats.psi_lower[feature]),
        psi_present=_present(stats, feature, len(labels) - 3),
        ks_lo=_number(stats.ks_lo[feature]),
        ks_hi=_number(stats.ks_hi[feature]),
        ks_p=_number(stats.ks_p[feature]),
        ks_at=ks.location(edges, int(stats.ks_at[feature])) if ordered else None,
        ks_sign=int(stats.ks_sign[feature]) if ordered else 0,
        rows=stats.rows,
        effective_rows=float(stats.effective_rows[feature]),
        dispersion=float(stats.dispersion[feature]),
        reference_rows=stats.reference_rows,
        missing=float(stats.missing[feature]),
        unseen=float(stats.unseen[feature]),
        non_finite=float(stats.non_finite[feature]),
        bins=tuple(BinShare(*share) for share in shares),
    )


def _present(stats: Stats, feature: int, bins: int) -> float:
    ref = stats.ref_shares[feature, :bins] * stats.reference_rows
    cur = stats.cur_shares[feature, :bins] * stats.rows
    return psi.psi(ref, cur) if ref.any() and cur.any() else 0.0


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
