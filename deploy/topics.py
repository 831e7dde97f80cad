"""The topics of a deployment: which there must be, with what options, and making those that miss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from deploy.kafka_admin import admin_client
from deploy.local.ready import tcp_answers
from tidemill.errors import SettingsError, Unavailable
from tidemill.settings import Settings

_TIMEOUT_S = 10.0
# Record timestamps are event times: recorded events are older than any retention by time, which
# would delete them at once. Size bounds the topic instead.
_BY_SIZE = {"retention.ms": "-1", "retention.bytes": str(16 << 30)}
# A broker refuses timestamps of the far future since Kafka 4, with the producer's whole batch. The
# job must see them: it dead-letters the one record with its reason.
_ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
# A dead letter is the largest record a producer may send and its headers on top.
_ROOMY = {"max.message.bytes": str(8 << 20)}


@dataclass(frozen=True)
class TopicSpec:
    """A topic as it should be; ``role`` is its key in the settings."""

    role: str
    name: str
    partitions: int
    replication: int
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TopicState:
    """A topic as it is; ``partitions`` is 0 if there is none, ``problem`` is empty if all is well."""

    role: str
    name: str
    partitions: int
    problem: str


def planned_topics(settings: Settings) -> list[TopicSpec]:
    """All topics that the settings name."""
    topics = settings.topics
    logs = _BY_SIZE | _ANY_TIME
    options = {
        "orders": (topics.orders, logs),
        "outcomes": (topics.outcomes, logs),
        "results": (topics.results, logs | _ROOMY),
        "features": (topics.features, logs | _ROOMY),
        "late": (settings.late_topic, logs | _ROOMY),
        "dlq": (settings.dlq_topic, logs | _ROOMY),
        "alerts": (topics.alerts, logs),
        "reports": (topics.reports, logs | _ROOMY),
    }
    data = [
        TopicSpec(role, name, topics.partitions, topics.replication, wanted)
        for role, (name, wanted) in options.items()
    ]
    # one partition keeps commands in order; the newest of each feature is kept for ever
    compacted = {"cleanup.policy": "compact"} | _ANY_TIME
    return [*data, TopicSpec("control", topics.control, 1, topics.replication, compacted)]


def create_topics(settings: Settings) -> list[str]:
    """Make the topics that miss and return their names; existing ones are left as they are.

    Raises Unavailable if the broker can't be reached or refuses, SettingsError if a topic can't be
    made as the settings ask.
    """
    admin = admin_client(settings.kafka.client_config())
    present = _metadata(admin, settings).topics
    missing = [spec for spec in planned_topics(settings) if spec.name not in present]
    if not missing:
        return []
    wanted = [
        NewTopic(
            spec.name,
            num_partitions=spec.partitions,
            replication_factor=spec.replication,
            config=dict(spec.options),
        )
        for spec in missing
    ]
    made = []
    for name, future in admin.create_topics(wanted, operation_timeout=_TIMEOUT_S).items():
        try:
            future.result()
        except KafkaException as error:
            reason = error.args[0]
            if reason.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise SettingsError(_cant_make(name, reason, settings)) from error
            continue
        made.append(name)
    return made


def topic_states(settings: Settings) -> list[TopicState]:
    """What is there of the planned topics; raises Unavailable."""
    present = _metadata(admin_client(settings.kafka.client_config()), settings).topics
    return [
        _state(spec, len(present[spec.name].partitions) if spec.name in present else 0)
        for spec in planned_topics(settings)
    ]


def _state(spec: TopicSpec, partitions: int) -> TopicState:
    problem = ""
    if partitions == 0:
        problem = "missing: tidemill topics --create makes it"
    elif spec.role == "control" and partitions != 1:
        problem = f"has {partitions} partitions, must have 1: commands would lose their order"
    elif partitions < spec.partitions:
        problem = f"has {partitions} partitions, settings ask for {spec.partitions}"
    return TopicState(spec.role, spec.name, partitions, problem)


def _metadata(admin: AdminClient, settings: Settings) -> Any:
    bootstrap = settings.kafka.bootstrap
    reason = "connection refused"
    # a refused connection is known at once, librdkafka would try again until the timeout
    if any(tcp_answers(address.strip()) for address in bootstrap.split(",")):
        try:
            return admin.list_topics(timeout=_TIMEOUT_S)
        except KafkaException as error:
            reason = error.args[0].str()
    raise Unavailable(
        f"Kafka at {bootstrap} does not answer ({reason}): check kafka.bootstrap and the security"
        " settings"
    )


def _cant_make(name: str, reason: KafkaError, settings: Settings) -> str:
    topics = settings.topics
    return (
        f"can't make topic {name} with {topics.partitions} partitions and {topics.replication}"
        f" replicas: {reason.str()}. Check topics.partitions and topics.replication, or have it"
        " made by whoever may"
    )
