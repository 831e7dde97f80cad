"""When a worker process is killed, restarted, given up on: policy, state and logic, pure.

Decides: kill or keep, restart after how long, or give up. Must not know: processes, clocks, HTTP.

    phase      start          ready probe      bad probes      exit
    STOPPED -> STARTING
    STARTING                  READY            KILLED (*)      STOPPED
    READY                     READY            KILLED          STOPPED
    KILLED                                                     STOPPED
    (*) only when the start takes longer than `start_timeout_ms`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from models.worker_config import EXIT_GOLDEN, EXIT_LOAD, EXIT_OK, EXIT_POISONED, EXIT_SETTINGS

# Starting the same files again ends the same way.
HOPELESS = frozenset({EXIT_SETTINGS, EXIT_GOLDEN, EXIT_LOAD})


class Phase(StrEnum):
    """Where the child is."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """A batch older than max(`stall_factor` x its usual time, `stall_floor_ms`) means a hung child.

    `silent_probes`: so many health probes in a row without an answer mean the same. The floor is
    above the agent's own (which only stops waiting), since a kill costs a model start.
    """

    stall_factor: float = 5.0
    stall_floor_ms: float = 2000.0
    silent_probes: int = 3
    start_timeout_ms: float = 180_000.0
    first_pause_ms: float = 100.0
    longest_pause_ms: float = 30_000.0
    steady_ms: float = 60_000.0

    def __post_init__(self) -> None:
        if self.stall_factor < 1 or self.stall_floor_ms <= 0 or self.silent_probes < 1:
            raise ValueError(f"{self}: factor and probes are at least 1, the floor is positive")
        if not 0 < self.first_pause_ms <= self.longest_pause_ms:
            raise ValueError(f"{self}: 0 < first_pause_ms <= longest_pause_ms")


@dataclass(frozen=True, slots=True)
class Probe:
    """One answer of /health. `busy_ms` 0 = idle; `service_ms` = usual time of the batch under way."""

    ready: bool
    busy_ms: float
    service_ms: float

    @staticmethod
    def from_health(body: Mapping[str, Any]) -> Probe:
        """From the JSON of /health. Raises KeyError, TypeError or ValueError for another shape."""
        return Probe(bool(body["ready"]), float(body["busy_ms"]), float(body["service_ms"]))


@dataclass(slots=True)
class RestartState:
    """What is remembered of the child; `since_ms` = start of the phase, `ready_ms` of READY."""

    phase: Phase = Phase.STOPPED
    since_ms: float = 0.0
    ready_ms: float | None = None
    silent: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Keep:
    """Nothing to do."""


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL it (a stopped process can't do better), because of `why`."""

    why: str


@dataclass(frozen=True, slots=True)
class Restart:
    """Start another after `pause_ms`."""

    pause_ms: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Don't start another; end with `code`."""

    code: int


class RestartLogic:
    """Decisions on one child; the shell carries them out."""

    def __init__(self, policy: RestartPolicy, state: RestartState | None = None) -> None:
        self.policy = policy
        self.state = state or RestartState()

    def started(self, now_ms: float) -> None:
        """A child was started."""
        self._enter(Phase.STARTING, now_ms)

    def probed(self, probe: Probe | None, now_ms: float) -> Keep | Kill:
        """The answer of a health probe; None = no answer in time."""
        state, policy = self.state, self.policy
        if state.phase not in (Phase.STARTING, Phase.READY):
            return Keep()
        if probe is not None and probe.ready and state.phase is Phase.STARTING:
            self._enter(Phase.READY, now_ms)
            state.ready_ms = now_ms
        if state.phase is Phase.STARTING:
            age_ms = now_ms - state.since_ms
            if age_ms <= policy.start_timeout_ms:
                return Keep()
            return self._kill(f"not ready after {age_ms / 1000:.0f} s")
        if probe is None:
            state.silent += 1
            if state.silent < policy.silent_probes:
                return Keep()
            return self._kill(f"no answer to {state.silent} health probes")
        state.silent = 0
        limit_ms = max(policy.stall_factor * probe.service_ms, policy.stall_floor_ms)
        if probe.busy_ms > limit_ms:
            return self._kill(
                f"one batch runs for {probe.busy_ms:.0f} ms; usual {probe.service_ms:.1f} ms,"
                f" limit {limit_ms:.0f} ms"
            )
        return Keep()

    def exited(self, code: int, now_ms: float, jitter: float) -> Restart | GiveUp:
        """The child ended (negative code = by a signal). `jitter` in [0, 1) spreads restarts."""
        state, policy = self.state, self.policy
        steady = state.ready_ms is not None and now_ms - state.ready_ms >= policy.steady_ms
        self._enter(Phase.STOPPED, now_ms)
        state.ready_ms = None
        if code == EXIT_OK:
            return GiveUp(EXIT_OK)  # it was drained by someone else's SIGTERM: that was meant
        if code in HOPELESS:
            return GiveUp(code)
        state.failures = 1 if steady else state.failures + 1
        if code == EXIT_POISONED and state.failures == 1:
            return Restart(0.0)
        doubled_ms = policy.first_pause_ms * 2.0 ** min(state.failures - 1, 30)
        return Restart(min(doubled_ms, policy.longest_pause_ms) * (1 - 0.5 * jitter))

    def _kill(self, why: str) -> Kill:
        self.state.phase = Phase.KILLED
        return Kill(why)

    def _enter(self, phase: Phase, now_ms: float) -> None:
        self.state.phase, self.state.since_ms, self.state.silent = phase, now_ms, 0
