"""The answer to one task, as a typed value parsed from its result JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from tidemill.contracts import RESULT_FIELDS, RESULT_VERSION, Status, Tier
from tidemill.errors import ContractError


@dataclass(frozen=True, slots=True)
class Answer:
    """How a task ended.  Times ending in ``_ms`` are epoch or durations in milliseconds."""

    task: str
    attempt: int
    status: Status
    tier: Tier
    outputs: Mapping[str, float] | None
    reason: str | None
    message: str | None
    model: str
    model_version: str
    control_version: int
    frozen: tuple[str, ...]
    event_ms: int
    ingest_ms: int
    done_ms: int
    deadline_ms: int
    queue_ms: float
    service_ms: float
    partition: int
    offset: int

    @property
    def ok(self) -> bool:
        """Whether there are outputs."""
        return self.status is Status.OK

    @property
    def in_sla(self) -> bool:
        """Whether it was scored, and before its deadline."""
        return self.ok and self.done_ms <= self.deadline_ms

    @property
    def value(self) -> float | None:
        """The first output; None if there is none."""
        return next(iter(self.outputs.values()), None) if self.outputs else None

    @property
    def total_ms(self) -> int:
        """From the job's first sight of the event to the answer."""
        return self.done_ms - self.ingest_ms

    @classmethod
    def from_json(cls, raw: bytes) -> Answer:
        """Parse a result; fields added by later minor changes are ignored.

        Raises ContractError if it is no result or of another version.
        """
        try:
            result = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise ContractError(f"result {raw[:80]!r} is not JSON: {error}") from None
        if not isinstance(result, dict) or result.get("v") != RESULT_VERSION:
            version = result.get("v") if isinstance(result, dict) else None
            raise ContractError(
                f"result has version {version!r}, this program knows {RESULT_VERSION}: upgrade it"
            )
        return cls._from_fields(result)

    @classmethod
    def _from_fields(cls, result: dict[str, Any]) -> Answer:
        missing = [name for name in RESULT_FIELDS if name not in result]
        if missing:
            raise ContractError(f"result of task {result.get('task')!r} has no {missing[0]!r}")
        fields = {name: result[name] for name in RESULT_FIELDS if name != "v"}
        try:
            fields["status"], fields["tier"] = Status(result["status"]), Tier(result["tier"])
            fields["frozen"] = tuple(result["frozen"])
        except (ValueError, TypeError) as error:
            raise ContractError(f"result of task {result['task']!r}: {error}") from None
        return cls(**fields)

    def as_dict(self) -> dict[str, Any]:
        """The fields of the contract and ``in_sla``, ready for JSON."""
        fields: dict[str, Any] = {
            name: getattr(self, name) for name in RESULT_FIELDS if name != "v"
        }
        fields["outputs"] = None if self.outputs is None else dict(self.outputs)
        fields["frozen"] = list(self.frozen)
        return {"v": RESULT_VERSION} | fields | {"in_sla": self.in_sla}
