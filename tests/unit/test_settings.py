"""Contract: settings are checked where they are read, a typo suggests the right key, and a secret
never appears in what is shown."""

from __future__ import annotations

import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from tidemill.errors import SettingsError
from tidemill.settings import (
    SECTIONS,
    FeaturePointer,
    JobSettings,
    KafkaSettings,
    RedisSettings,
    Secret,
    Settings,
    load_settings,
)

HIDDEN = "hunter2-and-more"


def load(**environ: str) -> Settings:
    return load_settings(None, {"TIDEMILL_" + name: text for name, text in environ.items()})


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No ./tidemill.toml of the place where the tests run."""
    monkeypatch.chdir(tmp_path)


def test_defaults_are_valid() -> None:
    assert load() == Settings()


def test_file_then_environment_then_overrides(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('[redis]\nhost = "a"\nport = 1\ndb = 1\n')
    settings = load_settings(
        file,
        {"TIDEMILL_REDIS__PORT": "2", "TIDEMILL_REDIS__DB": "2"},
        {"redis.db": 3, "kafka__group": "g"},
    )
    assert (settings.redis.host, settings.redis.port, settings.redis.db) == ("a", 2, 3)
    assert settings.kafka.group == "g"


def test_the_file_may_be_named_by_the_environment_or_lie_here(tmp_path: Path) -> None:
    (tmp_path / "named.toml").write_text('[app]\nname = "named"\n')
    (tmp_path / "tidemill.toml").write_text('[app]\nname = "here"\n')
    assert load(CONFIG=str(tmp_path / "named.toml")).app.name == "named"
    assert load().app.name == "here"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('[kafka]\nbotstrap = "x"', "did you mean 'bootstrap'"),
        ('[kafak]\nbootstrap = "x"', "did you mean 'kafka'"),
        ("[redis]\nttl = 5", "did you mean 'ttl_s'"),
        ('[redis]\npasword_file = "x"', "did you mean 'password_file'"),
        ("[job]\nzzz = 5", "known are"),
        ("name = 5", r"must be a \[section\]"),
    ],
)
def test_a_typo_suggests_the_right_key(tmp_path: Path, text: str, hint: str) -> None:
    file = tmp_path / "s.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=hint):
        load_settings(file, {})


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("KAFKA__BOTSTRAP", "did you mean 'bootstrap'"),
        ("REDSI__PORT", "did you mean 'redis'"),
        ("KAFKA_BOOTSTRAP", "did you mean TIDEMILL_KAFKA__BOOTSTRAP"),
        ("REDIS_PASSWORD_FILE", "did you mean TIDEMILL_REDIS__PASSWORD_FILE"),
    ],
)
def test_a_typo_in_the_environment_too(variable: str, hint: str) -> None:
    with pytest.raises(SettingsError, match=hint):
        load(**{variable: "1"})


def test_variables_of_other_programs_are_left_alone() -> None:
    assert load(HOME="x", DEMO_SECONDS="3") == Settings()


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        ("REDIS__PORT", "99999", ["redis.port", "99999", "65535", "TIDEMILL_REDIS__PORT"]),
        ("REDIS__PORT", "0", ["redis.port", "0", "1"]),
        ("REDIS__PORT", "six", ["redis.port", "'six'", "whole number"]),
        ("REDIS__TLS", "maybe", ["redis.tls", "'maybe'", "true or false"]),
        ("BATCH__HOP_MS", "nan", ["batch.hop_ms", "nan", "limit"]),
        ("JOB__MODE", "fast", ["job.mode", "'fast'", "'realtime'", "'strict'"]),
        ("KAFKA__CLIENT", "a=b", ["KAFKA__CLIENT", "JSON object"]),
        ("KAFKA__CLIENT", '{"a": 1}', ["kafka.client", "quotes"]),
        ("EVENT__FEATURES", '{"a": "x"}', ["event.features.a", "'x'", "start it with '/'"]),
        ("EVENT__FEATURES", '{"a": {"scal": 2}}', ["event.features.a", "scal"]),
        ("CONFIG", "/no/such.toml", ["/no/such.toml", "TIDEMILL_CONFIG"]),
    ],
)
def test_errors_name_the_key_the_value_and_the_remedy(
    variable: str, text: str, words: list[str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(**{variable: text})
    assert [word for word in words if word not in str(caught.value)] == []


def test_values_made_in_code_are_checked_as_well() -> None:
    with pytest.raises(SettingsError, match=r"redis\.port"):
        RedisSettings(port=0)
    with pytest.raises(SettingsError, match=r"job\.lanes = True"):
        JobSettings(lanes=True)


def test_types_of_the_environment() -> None:
    settings = load(REDIS__TLS="TRUE", BATCH__MARGIN_MS="1", KAFKA__CLIENT='{"a": "b"}')
    assert settings.redis.tls is True
    assert settings.batch.margin_ms == 1.0
    assert settings.kafka.client == {"a": "b"}


def test_features_may_be_pointers_or_tables() -> None:
    settings = load(EVENT__FEATURES='{"a": "/x", "b": {"pointer": "/y", "scale": 2, "default": 0}}')
    assert settings.event.features == {
        "a": FeaturePointer("/x"),
        "b": FeaturePointer("/y", 2.0, 0),
    }


def test_derived_names() -> None:
    settings = load(APP__NAME="eta", APP__ENV="prod", TOPICS__ORDERS="o", KAFKA__GROUP="g")
    assert (settings.prefix, settings.late_topic, settings.dlq_topic) == (
        "eta:prod",
        "o.late",
        "o.g.dlq",
    )
    settings = load(REDIS__PREFIX="p", TOPICS__LATE="l", TOPICS__DLQ="d")
    assert (settings.prefix, settings.late_topic, settings.dlq_topic) == ("p", "l", "d")


def with_secrets() -> Settings:
    client = json.dumps({"ssl.key.password": HIDDEN, "sasl.oauthbearer.client.secret": HIDDEN})
    java = json.dumps({"sasl.jaas.config": f'x password="{HIDDEN}";'})
    return load(
        REDIS__PASSWORD=HIDDEN, KAFKA__SASL_PASSWORD=HIDDEN, KAFKA__CLIENT=client, KAFKA__JAVA=java
    )


def test_secrets_are_never_shown() -> None:
    settings = with_secrets()
    shown = [repr(settings), str(settings), f"{settings.redis.password}", str(vars(settings.kafka))]
    shown.append(json.dumps(settings.as_dict()))
    assert [text for text in shown if HIDDEN in text] == []
    with pytest.raises(TypeError):
        json.dumps(dataclasses.asdict(settings))


def test_secrets_reach_the_clients() -> None:
    settings = with_secrets()
    assert settings.redis.password.reveal() == HIDDEN
    assert settings.kafka.client_config()["sasl.password"] == HIDDEN
    assert settings.kafka.client_config()["ssl.key.password"] == HIDDEN
    assert HIDDEN in settings.kafka.java_properties()["sasl.jaas.config"]


def test_errors_of_secrets_do_not_show_them(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(None, {}, {"redis.password": [HIDDEN]})
    assert HIDDEN not in str(caught.value)
    file = tmp_path / "s.toml"
    file.write_text(f'[redis]\npassword_fil = "{HIDDEN}"\n')
    with pytest.raises(SettingsError, match="did you mean 'password_file'") as caught:
        load_settings(file, {})
    assert HIDDEN not in str(caught.value)


def test_a_secret_may_lie_in_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(HIDDEN + "\n")
    assert load(REDIS__PASSWORD_FILE=str(secret)).redis.password == Secret(HIDDEN)
    settings = load_settings(None, {}, {"kafka.sasl_password_file": str(secret)})
    assert settings.kafka.sasl_password == Secret(HIDDEN)
    with pytest.raises(SettingsError, match=r"redis\.password_file = '/no/such' can't be read"):
        load(REDIS__PASSWORD_FILE="/no/such")


def test_settings_travel_in_a_pickle() -> None:
    settings = with_secrets()
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_every_producer_uses_the_partitioner_of_java_and_loses_nothing() -> None:
    config = KafkaSettings().producer_config()
    assert config["partitioner"] == "murmur2_random"
    assert (config["enable.idempotence"], config["acks"]) == ("true", "all")


def test_a_consumer_says_so_when_its_offset_is_gone_instead_of_jumping() -> None:
    config = KafkaSettings().consumer_config("g")
    assert (config["auto.offset.reset"], config["enable.auto.commit"]) == ("error", "false")
    assert KafkaSettings().consumer_config("g", read_committed=True)["isolation.level"] == (
        "read_committed"
    )


def test_options_of_the_user_win() -> None:
    kafka = KafkaSettings(client={"linger.ms": "9"}, java={"bootstrap.servers": "other:1"})
    assert kafka.producer_config()["linger.ms"] == "9"
    assert kafka.java_properties()["bootstrap.servers"] == "other:1"


def test_java_gets_sasl_with_quotes_escaped() -> None:
    kafka = KafkaSettings(
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username="u",
        sasl_password=Secret('a"b\\c'),
    )
    properties = kafka.java_properties()
    assert properties["sasl.mechanism"] == "SCRAM-SHA-512"
    assert "scram.ScramLoginModule required" in properties["sasl.jaas.config"]
    assert r'password="a\"b\\c";' in properties["sasl.jaas.config"]


def test_java_gets_certificates_inline(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(name.upper())
    paths = {f"ssl_{name}": str(tmp_path / name) for name in ("ca", "cert", "key")}
    properties = KafkaSettings(security_protocol="SSL", **_strings(paths)).java_properties()
    assert properties["ssl.truststore.certificates"] == "CA"
    assert properties["ssl.keystore.certificate.chain"] == "CERT"
    assert properties["ssl.keystore.key"] == "KEY"
    with pytest.raises(SettingsError, match="needed together"):
        KafkaSettings(ssl_key=paths["ssl_key"]).java_properties()


def _strings(values: dict[str, str]) -> dict[str, Any]:
    return dict(values)


def test_every_setting_has_its_sentence() -> None:
    for section in SECTIONS.values():
        for field in dataclasses.fields(section):  # type: ignore[arg-type]
            assert field.metadata["doc"].endswith(".")
