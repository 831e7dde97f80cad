"""Settings of the services around a job: application, Kafka, topics, Redis and events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from tidemill import _kafka_config
from tidemill._setting import Options, Secret, Section, about, setting
from tidemill._settings_event import FeaturePointer

_PROTOCOLS: Final = ("", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True)
class AppSettings(Section):
    """Names of the deployment."""

    section: ClassVar[str] = "app"
    name: str = setting("tidemill", "Name of the application; first part of the Redis prefix.")
    env: str = setting("dev", "Environment; second part of the Redis prefix.")


@dataclass(frozen=True)
class KafkaSettings(Section):
    """How to reach Kafka, for Python clients and for the jobs' Java clients alike."""

    section: ClassVar[str] = "kafka"
    bootstrap: str = setting("localhost:9092", "Brokers, `host:port` with commas between them.")
    group: str = setting("tidemill-scoring", "Consumer group of the scoring job.")
    security_protocol: str = setting(
        "", "Protocol to the brokers; empty means PLAINTEXT.", choices=_PROTOCOLS
    )
    sasl_mechanism: str = setting(
        "",
        "SASL mechanism; others go through `client` and `java`.",
        choices=("", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    )
    sasl_username: str = setting("", "SASL user.")
    sasl_password: Secret = field(default_factory=Secret, metadata=about("SASL password."))
    ssl_ca: str = setting("", "PEM file of the authorities that sign the brokers' certificates.")
    ssl_cert: str = setting("", "PEM file of the client's certificate chain, for mutual TLS.")
    ssl_key: str = setting("", "PEM file of the client's private key (PKCS#8, not encrypted).")
    client: Options = field(
        default_factory=dict,
        metadata=about("Any librdkafka option, for the Python clients; wins over all."),
    )
    java: Options = field(
        default_factory=dict,
        metadata=about("Any option of Kafka's Java clients, for the jobs; wins over all."),
    )

    def client_config(self) -> dict[str, str]:
        """Options of any confluent-kafka client; holds secrets, never log it."""
        return _kafka_config.client_config(self)

    def producer_config(self) -> dict[str, str]:
        """Options of a producer: idempotent, all replicas, the partitioner that Java uses."""
        return _kafka_config.producer_config(self)

    def consumer_config(
        self, group: str, *, reset: str = "error", read_committed: bool = False
    ) -> dict[str, str]:
        """Options of a consumer that commits by hand; ``reset`` is auto.offset.reset."""
        return _kafka_config.consumer_config(self, group, reset, read_committed)

    def java_properties(self) -> dict[str, str]:
        """Properties for Flink's Kafka connector; holds secrets, never log it.

        Reads the files of ``ssl_cert`` and ``ssl_key``; raises SettingsError if they can't be.
        """
        return _kafka_config.java_properties(self)


@dataclass(frozen=True)
class TopicSettings(Section):
    """Names of the topics, and how new ones are made."""

    section: ClassVar[str] = "topics"
    orders: str = setting("orders.order.created.v1", "Events to be scored.")
    outcomes: str = setting("orders.order.outcome.v1", "What really happened; labels.")
    results: str = setting("inference.result.v1", "Answers.")
    features: str = setting("inference.features.v1", "Features as they were served.")
    control: str = setting("drift.control.v1", "Commands to the scoring job (compacted).")
    alerts: str = setting("drift.alert.v1", "Alerts of the drift job.")
    reports: str = setting("drift.report.v1", "Reports of the drift job.")
    late: str = setting("", "Late records; empty means `<orders>.late`.")
    dlq: str = setting("", "Dead letters; empty means `<orders>.<kafka.group>.dlq`.")
    partitions: int = setting(4, "Partitions of a new topic.", low=1, high=10_000)
    replication: int = setting(1, "Replicas of a new topic.", low=1, high=100)


@dataclass(frozen=True)
class RedisSettings(Section):
    """How to reach Redis (7 or newer, not a cluster), and how long answers stay."""

    section: ClassVar[str] = "redis"
    host: str = setting("localhost", "Host; resolved anew for each connection.")
    port: int = setting(6379, "Port.", low=1, high=65_535)
    db: int = setting(0, "Database number.", low=0, high=1_000_000)
    username: str = setting("", "ACL user; empty means the default user.")
    password: Secret = field(default_factory=Secret, metadata=about("Password."))
    tls: bool = setting(False, "Whether to speak TLS.")
    tls_ca: str = setting("", "PEM file of authorities; empty means the system's.")
    tls_cert: str = setting("", "PEM file of the client's certificate, for mutual TLS.")
    tls_key: str = setting("", "PEM file of the client's private key.")
    prefix: str = setting("", "Prefix of all keys; empty means `<app.name>:<app.env>`.")
    ttl_s: int = setting(
        900,
        "How long an answer stays, in seconds: deadline and retry window.",
        low=1,
        high=2_592_000,
    )
    stream_max_len: int = setting(
        10_000, "About how many answers a caller's stream keeps.", low=1, high=10_000_000
    )
    timeout_ms: int = setting(
        500, "Longest wait for a connection or a reply, in ms.", low=1, high=60_000
    )


@dataclass(frozen=True)
class EventSettings(Section):
    """Where an event keeps its id, its time and its features (JSON pointers, RFC 6901)."""

    section: ClassVar[str] = "event"
    id: str = setting("/order_id", "Pointer to the entity's id; also the default record key.")
    event_id: str = setting("/event_id", "Pointer to the event's own id; names the task.")
    event_time: str = setting(
        "", "Pointer to the event's time, checked against the record's; empty means no check."
    )
    features: dict[str, FeaturePointer] = field(
        default_factory=dict,
        metadata=about(
            "Feature = pointer, or a table of pointer, scale, default; else `/features/<feature>`."
        ),
    )
