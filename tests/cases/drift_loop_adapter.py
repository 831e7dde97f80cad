"""Op names of recorded drift cases that are about time and state: windows, the policy, the rule."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from drift import leaky
from drift.freeze import FreezeLogic
from drift.judge import Judgement, Level
from drift.panes import PanePolicy, PaneWindow, Put, Source
from drift.policy import DriftPolicy

Case = dict[str, Any]
SLIDE_MS = 1000


def merge_counts(case: Case) -> Any:
    window = _window(1, 1, len(case["parts"][0]))
    for subtask, part in enumerate(case["parts"]):
        window.put(0, Source(subtask, 0), np.array([part], np.int64))
    window.slide_to(1)
    return window.total[0].tolist()


def _window(pane: int, panes: int, width: int) -> PaneWindow:
    return PaneWindow(PanePolicy(pane, pane * panes, pane), (1, width))


def sliding_counts(case: Case) -> Any:
    window, found = _window(1, case["panes_per_window"], len(case["pane_counts"][0])), []
    for pane, counts in enumerate(case["pane_counts"]):
        window.put(pane, Source(0, 0), np.array([counts], np.int64))
        window.slide_to(pane + 1)
        found.append(window.total[0].tolist())
    return {"window_counts": found}


def sliding_counts_gap(case: Case) -> Any:
    window, found = _window(case["pane_seconds"], case["panes_per_window"], 1), []
    for subtask, (time_s, count) in enumerate(case["events"]):
        pane = window.policy.pane_of(time_s)
        window.put(pane, Source(subtask, 0), np.array([[count]], np.int64))
        if window.end_ms is None or pane >= window.end_ms:
            window.slide_to(pane + window.policy.pane_ms)
        found.append(int(window.total.sum()))
    return {"window_counts_after_each": found}


def late_records(case: Case) -> Any:
    window = _window(case["pane_seconds"], case["panes_per_window"], 1)
    window.slide_to(window.policy.pane_of(case["watermark"]))
    puts = [
        window.put(window.policy.pane_of(time_s), Source(i, 0), np.ones((1, 1), np.int64))
        for i, time_s in enumerate(case["late_event_times"])
    ]
    dropped = puts.count(Put.EXPIRED)
    assert window.expired_rows == dropped
    return {"counted": len(puts) - dropped, "dropped_late": dropped}


def state_machine(case: Case) -> Any:
    policy = DriftPolicy(
        slide_ms=SLIDE_MS,
        alert_psi=case["alert_in"],
        alert_clear_psi=case["alert_out"],
        freeze_psi=case["freeze_above"],
        freeze_clear_psi=case["unfreeze_below"],
        persist_ms=(case["freeze_after"] - 1) * SLIDE_MS,
        calm_ms=(case["clear_after"] - 1) * SLIDE_MS,
    )
    logic, found = FreezeLogic(policy, ["x"]), []
    for i, value in enumerate(case["psi"]):
        logic.step([_judgement(value, policy)], i * SLIDE_MS)
        found.append(logic.state.features["x"].status.value)
    return found


def _judgement(value: float | None, policy: DriftPolicy) -> Judgement:
    if value is None:
        return Judgement(Level.INSUFFICIENT)
    level = Level.OK if value < policy.alert_psi else Level.ALERT
    return Judgement(Level.CANDIDATE if value > policy.freeze_psi else level, value)


def _rule(case: Case) -> leaky.LeakyPolicy:
    clip = case.get("clip_error", math.inf)
    return leaky.LeakyPolicy(case["alpha"], case["decay"], clip, math.inf)


def recal(case: Case) -> Any:
    weight = case["w0"]
    for error, importance in case["steps"]:
        weight = _rule(case).step(weight, error, importance)
    return weight


def recal_repeat(case: Case) -> Any:
    return recal({**case, "steps": [[case["error"], case["importance"]]] * case["n"]})


def recal_ids(case: Case) -> Any:
    weight = leaky.LeakyWeight(_rule(case), case["w0"])
    for label, error, importance in case["steps"]:
        weight.learn(str(label), error, importance)
    return weight.weight


def recal_error(case: Case) -> Any:
    stale, fresh = (
        leaky.fresh_error(case["label"], case["base_logit"], case[when])
        for when in ("calibration_at_serve", "calibration_now")
    )
    return {"stale": stale, "fresh": fresh}


def recal_residual_fraction(case: Case) -> Any:
    return leaky.residual(case["alpha_importance_gain"], case["decay"])


def recal_kcrit(case: Case) -> Any:
    return leaky.critical_gain(case["decay"], case["delay_updates"])


def recal_stable_all_delays(case: Case) -> Any:
    return [leaky.stable_for_all_delays(k, case["decay"]) for k in case["k"]]


LOOP_OPS: dict[str, Callable[[Case], Any]] = {
    call.__name__: call
    for call in (
        merge_counts,
        sliding_counts,
        sliding_counts_gap,
        late_records,
        state_machine,
        recal,
        recal_repeat,
        recal_ids,
        recal_error,
        recal_residual_fraction,
        recal_kcrit,
        recal_stable_all_delays,
    )
}
