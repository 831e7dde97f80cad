"""From our Kafka settings to the options of librdkafka and of Kafka's Java clients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidemill._setting import reveal_options
from tidemill.errors import SettingsError

if TYPE_CHECKING:
    from tidemill._settings_services import KafkaSettings


def client_config(kafka: KafkaSettings) -> dict[str, str]:
    """What every librdkafka client needs; `kafka.client` wins over all."""
    options = {
        "bootstrap.servers": kafka.bootstrap,
        "security.protocol": kafka.security_protocol.lower(),
        "sasl.mechanism": kafka.sasl_mechanism,
        "sasl.username": kafka.sasl_username,
        "sasl.password": kafka.sasl_password.reveal(),
        "ssl.ca.location": kafka.ssl_ca,
        "ssl.certificate.location": kafka.ssl_cert,
        "ssl.key.location": kafka.ssl_key,
    }
    return {k: v for k, v in options.items() if v} | reveal_options(kafka.client)


def producer_config(kafka: KafkaSettings) -> dict[str, str]:
    """A producer whose records are neither lost nor doubled nor on the wrong partition.

    librdkafka's own partitioner is crc32: its keys land on other partitions than Java's.
    """
    fixed = {
        "enable.idempotence": "true",
        "acks": "all",
        "partitioner": "murmur2_random",
        "linger.ms": "1",
    }
    return fixed | client_config(kafka)


def consumer_config(
    kafka: KafkaSettings, group: str, reset: str, read_committed: bool
) -> dict[str, str]:
    """A consumer that commits by hand and says so if its offset is gone (``reset=error``)."""
    fixed = {
        "group.id": group,
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "auto.offset.reset": reset,
        "isolation.level": "read_committed" if read_committed else "read_uncommitted",
        "allow.auto.create.topics": "false",
        "partition.assignment.strategy": "cooperative-sticky",
    }
    return fixed | client_config(kafka)


def java_properties(kafka: KafkaSettings) -> dict[str, str]:
    """The same for Java clients; key and certificate go inline, so that no other host needs them."""
    options = {"security.protocol": kafka.security_protocol, "sasl.mechanism": kafka.sasl_mechanism}
    if kafka.sasl_mechanism:
        options["sasl.jaas.config"] = _jaas(kafka)
    if kafka.ssl_ca:
        options["ssl.truststore.type"] = "PEM"
        options["ssl.truststore.certificates"] = _read("kafka.ssl_ca", kafka.ssl_ca)
    if kafka.ssl_cert or kafka.ssl_key:
        options["ssl.keystore.type"] = "PEM"
        options["ssl.keystore.certificate.chain"] = _read("kafka.ssl_cert", kafka.ssl_cert)
        options["ssl.keystore.key"] = _read("kafka.ssl_key", kafka.ssl_key)
    options["bootstrap.servers"] = kafka.bootstrap
    return {k: v for k, v in options.items() if v} | reveal_options(kafka.java)


def _jaas(kafka: KafkaSettings) -> str:
    package = "org.apache.kafka.common.security"
    plain = kafka.sasl_mechanism == "PLAIN"
    module = "plain.PlainLoginModule" if plain else "scram.ScramLoginModule"
    user, password = _quoted(kafka.sasl_username), _quoted(kafka.sasl_password.reveal())
    return f"{package}.{module} required username={user} password={password};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _read(name: str, path: str) -> str:
    if not path:
        raise SettingsError(f"{name} is empty: certificate and key are needed together")
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{name} = {path!r} can't be read: {error}") from error
