"""From the op names of recorded drift cases to the public functions of `drift`; no arithmetic here."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drift import cells, ks, psi
from drift.evaluate import Evaluator, Window
from drift.judge import Level, judge_bins, ks_severity
from drift.policy import DriftPolicy
from drift.reference import Column, build_reference
from drift.vocabulary import canonical
from tests.cases.drift_loop_adapter import LOOP_OPS, Case


def _floats(values: list[Any]) -> NDArray[np.float64]:
    return np.array([math.nan if v is None else float(v) for v in values], np.float64)


def _sorted(values: list[Any]) -> NDArray[np.float64]:
    return np.sort(_floats(values))


def cell_index(case: Case) -> Any:
    return cells.cell_index(case["edges"], case["values"]).tolist()


def split_special(case: Case) -> Any:
    parted = cells.part(_floats(case["values"]))
    return {
        "finite": parted.finite.tolist(),
        "missing": parted.missing,
        "pos_inf": parted.pos_inf,
        "neg_inf": parted.neg_inf,
    }


def reference_bins(case: Case) -> Any:
    ordered = _sorted(case["values"])
    edges = cells.quantile_edges(ordered, case["bins"])
    counts = cells.cell_counts(edges, ordered)
    fine = cells.cell_edges(ordered, case["bins"])
    zero = int(cells.cell_index(fine, [0.0])[0])
    own = bool(cells.single_valued(fine)[zero])
    return {
        "distinct_edges_finite": edges.tolist(),
        "ref_counts": counts.tolist(),
        "zero_is_own_bin": own,
    }


def psi_value(case: Case) -> Any:
    return psi.psi(case["ref"], case["cur"], case["pseudo_count"])


def psi_swap(case: Case) -> Any:
    there, back = psi_value(case), psi.psi(case["cur"], case["ref"], case["pseudo_count"])
    assert there == back
    return there


def psi_contributions(case: Case) -> Any:
    parts = psi.contributions(case["ref"], case["cur"], case["pseudo_count"])
    return {
        "contributions": parts.tolist(),
        "sum": float(parts.sum()),
        "top_bin": psi.top_bins(parts, 1)[0],
    }


def psi_with_missing(case: Case) -> Any:
    ref, cur = [*case["ref"], case["ref_missing"]], [*case["cur"], case["cur_missing"]]
    return {
        "psi_total": psi.psi(ref, cur, case["pseudo_count"]),
        "psi_present_only": psi_value(case),
        "missing_rate_cur": case["cur_missing"] / sum(cur),
    }


def psi_categorical(case: Case) -> Any:
    return psi.psi(*psi.aligned(case["ref"], case["cur"]), case["pseudo_count"])


def psi_categorical_raw(case: Case) -> Any:
    ref, cur = (
        Counter(str(canonical(value, case["declared_type"])) for value in case[side])
        for side in ("ref", "cur")
    )
    return {"psi": psi.psi(*psi.aligned(ref, cur), case["pseudo_count"])}


def psi_by_slot(case: Case) -> Any:
    slots = case["ref_slots"]
    everything = np.sum(list(slots.values()), axis=0).tolist()
    return {
        "psi_vs_all": psi.psi(everything, case["cur"], case["pseudo_count"]),
        "psi_vs_slot": psi.psi(slots[case["cur_slot"]], case["cur"], case["pseudo_count"]),
    }


def psi_ks_same_bins(case: Case) -> Any:
    value, none = psi_value(case), np.zeros(len(case["ref"]))
    grid = ks.KsGrid.of(case["ref"], none, none)
    return {
        "psi": value,
        "d_binned": float(ks.bracket(grid, case["cur"]).lo[0]),
        "d_upper_from_psi": psi.binned_ks_limit(value),
    }


def psi_critical(case: Case) -> Any:
    return float(psi.critical(case["n"], case["m"], case["bins"], case["alpha"]))


def psi_bias(case: Case) -> Any:
    return float(psi.bias(case["n"], case["m"], case["bins"]))


def psi_lcb(case: Case) -> Any:
    size = case["n"], case["m"], case["bins"]
    return float(psi.lower_bound(case["psi"], *size, case["level"]))


def drift_verdict(case: Case) -> Any:
    judged = judge_bins(
        case["ref"],
        case["cur"],
        case.get("alpha", 0.01),
        case.get("n_min", 1),
        case.get("pseudo_count", psi.PSEUDO_COUNT),
    )
    if judged is None:
        return {"status": Level.INSUFFICIENT.value}
    value, significant = judged
    alert = significant and value >= DriftPolicy().alert_psi
    return {"psi": value, "significant": significant, "status": "alert" if alert else "ok"}


def ks_value(case: Case) -> Any:
    return ks.exact(_floats(case["ref"]), _floats(case["cur"]))


def ks_with_missing(case: Case) -> Any:
    ref, cur = cells.part(_floats(case["ref"])), cells.part(_floats(case["cur"]))
    return {"ks_finite": ks.exact(ref.finite, cur.finite), "missing": cur.missing}


def ks_grid(case: Case) -> Any:
    found = _bracket(np.array(case["edges"], np.float64), case)
    return {
        "d_lo": float(found.lo[0]),
        "d_exact": ks_value(case),
        "d_hi": float(found.hi[0]),
    }


def ks_reference_cells(case: Case) -> Any:
    ordered = _sorted(case["ref"])
    found = _bracket(cells.cell_edges(ordered, len(ordered)), case)
    assert found.lo[0] == found.hi[0]
    return float(found.lo[0])


def _bracket(edges: NDArray[np.float64], case: Case) -> ks.KsBracket:
    ref, cur = _sorted(case["ref"]), _sorted(case["cur"])
    counts = cells.cell_counts(edges, ref)
    at_edge = cells.at_edge_counts(edges, ref)
    grid = ks.KsGrid.of(counts, at_edge, cells.single_valued(edges))
    return ks.bracket(grid, cells.cell_counts(edges, cur))


def ks_and_psi_atom(case: Case) -> Any:
    ref, cur = (
        np.repeat([value for value, _ in case[side]], [count for _, count in case[side]])
        for side in ("ref_runs", "cur_runs")
    )
    reference = build_reference("case", "1", [Column("x")], ref.astype(np.float64)[:, None])
    evaluator = Evaluator(reference, DriftPolicy())
    counts = reference.grid.count(cur.astype(np.float64)[:, None])
    panes = evaluator.project(counts)[None].astype(np.float64)
    stats = evaluator.evaluate(Window(0, counts, np.zeros(1, np.int64), panes))
    assert stats is not None
    assert stats.ks_lo[0] == stats.ks_hi[0]
    return {"ks": float(stats.ks_lo[0]), "psi": float(stats.psi[0])}


def ks_p_exact(case: Case) -> Any:
    return [ks.p_value(ks.exact(a, b), len(a), len(b)) for a, b in case["pairs"]]


def ks_p_asymptotic(case: Case) -> Any:
    p = float(ks.p_values(case["d"], case["n"], case["m"]))
    return {"p": p, "severity": ks_severity(case["d"], DriftPolicy())}


OPS: dict[str, Callable[[Case], Any]] = {
    call.__name__: call
    for call in (
        cell_index,
        split_special,
        reference_bins,
        psi_swap,
        psi_contributions,
        psi_with_missing,
        psi_categorical,
        psi_categorical_raw,
        psi_by_slot,
        psi_ks_same_bins,
        psi_critical,
        psi_bias,
        psi_lcb,
        drift_verdict,
        ks_with_missing,
        ks_grid,
        ks_reference_cells,
        ks_and_psi_atom,
        ks_p_exact,
        ks_p_asymptotic,
    )
} | {"psi": psi_value, "ks": ks_value, **LOOP_OPS}
