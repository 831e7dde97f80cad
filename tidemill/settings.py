"""The tree of settings, one frozen section a concern; each value has limits and a sentence.

`load_settings` reads a TOML file, then the environment, then overrides.  Programs read settings
once, at their edge, and hand sections on.  docs/settings.md lists every key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tidemill import contracts
from tidemill._setting import Secret, Section
from tidemill._settings_event import FeaturePointer
from tidemill._settings_job import (
    BatchSettings,
    FlinkSettings,
    JobSettings,
    LogSettings,
    MetricsSettings,
    ModelSettings,
    WorkerSettings,
)
from tidemill._settings_load import read_sources
from tidemill._settings_services import (
    AppSettings,
    EventSettings,
    KafkaSettings,
    RedisSettings,
    TopicSettings,
)

__all__ = [
    "AppSettings",
    "BatchSettings",
    "EventSettings",
    "FeaturePointer",
    "FlinkSettings",
    "JobSettings",
    "KafkaSettings",
    "LogSettings",
    "MetricsSettings",
    "ModelSettings",
    "RedisSettings",
    "Secret",
    "Section",
    "Settings",
    "TopicSettings",
    "WorkerSettings",
    "load_settings",
]


@dataclass(frozen=True)
class Settings:
    """All settings of a deployment."""

    app: AppSettings = field(default_factory=AppSettings)
    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    topics: TopicSettings = field(default_factory=TopicSettings)
    redis: RedisSettings = field(default_factory=RedisSettings)
    event: EventSettings = field(default_factory=EventSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    job: JobSettings = field(default_factory=JobSettings)
    batch: BatchSettings = field(default_factory=BatchSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    flink: FlinkSettings = field(default_factory=FlinkSettings)
    logs: LogSettings = field(default_factory=LogSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)

    @property
    def prefix(self) -> str:
        """Prefix of all Redis keys."""
        return self.redis.prefix or contracts.key_prefix(self.app.name, self.app.env)

    @property
    def late_topic(self) -> str:
        """Topic of late records."""
        return self.topics.late or contracts.late_topic(self.topics.orders)

    @property
    def dlq_topic(self) -> str:
        """Topic of dead letters."""
        return self.topics.dlq or contracts.dlq_topic(self.topics.orders, self.kafka.group)

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Plain values for showing; secrets are stars."""
        return {s.name: _plain(getattr(self, s.name)) for s in fields(self)}


SECTIONS: dict[str, type[Section]] = {
    section.section: section
    for section in (
        AppSettings,
        KafkaSettings,
        TopicSettings,
        RedisSettings,
        EventSettings,
        ModelSettings,
        JobSettings,
        BatchSettings,
        WorkerSettings,
        FlinkSettings,
        LogSettings,
        MetricsSettings,
    )
}


def load_settings(
    path: Path | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Read settings; raises SettingsError naming the key, the value, the limit and the remedy.

    The file is ``path``, else the one named by TIDEMILL_CONFIG, else ./tidemill.toml if there is
    one.  ``environ`` is the process's environment unless given.  Keys of ``overrides`` are
    `section.key` (or `section__key`) and win.
    """
    env = os.environ if environ is None else environ
    values = read_sources(SECTIONS, path, env, overrides or {})
    made: dict[str, Any] = {name: SECTIONS[name](**keys) for name, keys in values.items()}
    return Settings(**made)


def _plain(section: Any) -> dict[str, Any]:
    return {f.name: _plain_value(getattr(section, f.name)) for f in fields(section)}


def _plain_value(value: Any) -> Any:
    if isinstance(value, Secret):
        return str(value)
    if isinstance(value, FeaturePointer):
        return {"pointer": value.pointer, "scale": value.scale, "default": value.default}
    if isinstance(value, dict):
        return {name: _plain_value(entry) for name, entry in value.items()}
    return value
