"""The whole loop in one object: partial counts in, reports out.

The drift job and a backtest run this same code, so a stream and its replay give the same bytes.  Pure:
what it says depends on the counts, the commands and the watermarks given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from drift import codec
from drift.cells import Ints
from drift.evaluate import Evaluator, Window
from drift.events import Event, Request
from drift.freeze import FreezeLogic
from drift.judge import judge
from drift.panes import PanePolicy, PaneWindow, Put, Source
from drift.policy import DriftPolicy
from drift.reference import Reference
from drift.reference_file import reference_id
from drift.report import Report
from drift.states import StreamState
from tidemill.errors import ContractError, SettingsError

_KIND: Final = "drift monitor"
_VERSION: Final = 1
_HOUR_MS: Final = 3_600_000


class Monitor:
    """Watches the features of ``reference``.

    Raises SettingsError if the policies disagree on window or slide, or if a pane may touch two
    seasonal slots.
    """

    def __init__(
        self,
        reference: Reference,
        policy: DriftPolicy,
        panes: PanePolicy,
        state: StreamState | None = None,
    ) -> None:
        _check(reference, policy, panes)
        self.reference = reference
        self.policy = policy
        self.reference_id = reference_id(reference)
        self.logic = FreezeLogic(policy, reference.names, state)
        self._evaluator = Evaluator(reference, policy)
        self.window = PaneWindow(panes, self.shape, self._evaluator.project)

    @property
    def shape(self) -> tuple[int, int]:
        """Of a block of counts: features and width."""
        return len(self.reference.columns), self.reference.grid.width

    def put(self, pane_ms: int, source: Source, counts: Ints) -> Put:
        """Take what a source has counted so far in a pane; see `PaneWindow.put`."""
        return self.window.put(pane_ms, source, counts)

    def advance(self, watermark_ms: int) -> Iterator[Report]:
        """The reports of all windows that are complete at ``watermark_ms``, oldest first.

        Take all of them: the next window is made when the report before it has been taken.
        """
        for end_ms in self.window.due(watermark_ms):
            yield self._report(end_ms)

    def obey(self, request: Request, now_ms: int) -> list[Event]:
        """Carry out a person's command; see `FreezeLogic.obey`."""
        return self.logic.obey(request, now_ms)

    def _report(self, end_ms: int) -> Report:
        window = Window(end_ms, self.window.total, *self.window.panes())
        stats = self._evaluator.evaluate(window)
        verdicts = judge(stats, self.policy, len(self.logic.names))
        events = self.logic.step(verdicts, end_ms)
        features = self.logic.state.features
        return Report(
            begin_ms=end_ms - self.policy.window_ms,
            end_ms=end_ms,
            reference_id=self.reference_id,
            stats=stats,
            verdicts=tuple(verdicts),
            statuses=tuple(features[name].status for name in self.logic.names),
            events=tuple(events),
            stream_broken=self.logic.state.stream_broken,
            expired_rows=self.window.expired_rows,
        )

    def snapshot(self) -> bytes:
        """Everything that a checkpoint has to keep; the reference itself is not in it."""
        return codec.encode(
            _KIND,
            _VERSION,
            {"reference": self.reference_id},
            window=np.frombuffer(self.window.snapshot(), np.uint8),
            state=np.frombuffer(self.logic.state.encode(), np.uint8),
        )

    @classmethod
    def restore(
        cls, data: bytes, reference: Reference, policy: DriftPolicy, panes: PanePolicy
    ) -> Monitor:
        """Go on where ``data`` was taken; thresholds may have changed.

        With another reference the states stay and the windows begin anew: their cells are others.
        Raises ContractError on foreign bytes.
        """
        content = codec.decode(_KIND, _VERSION, data)
        state = StreamState.decode(content.arrays["state"].tobytes())
        monitor = cls(reference, policy, panes, state)
        if content.meta["reference"] == monitor.reference_id:
            window = content.arrays["window"].tobytes()
            restored = PaneWindow.restore(window, panes, monitor._evaluator.project)
            if restored.total.shape != monitor.shape:
                raise ContractError(f"counts {restored.total.shape}, expected {monitor.shape}")
            monitor.window = restored
        return monitor


def _check(reference: Reference, policy: DriftPolicy, panes: PanePolicy) -> None:
    if (policy.window_ms, policy.slide_ms) != (panes.window_ms, panes.slide_ms):
        raise SettingsError(
            f"policy has window_ms {policy.window_ms} and slide_ms {policy.slide_ms}, panes"
            f" {panes.window_ms} and {panes.slide_ms}: they must be the same"
        )
    slots = reference.policy.slots
    if slots.count and (_HOUR_MS % panes.pane_ms or slots.offset_ms % panes.pane_ms):
        raise SettingsError(
            f"pane_ms {panes.pane_ms} must divide an hour and the slots' offset"
            f" {slots.offset_ms}: a pane belongs to one slot"
        )
