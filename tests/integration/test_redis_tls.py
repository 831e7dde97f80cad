"""Contract: writer and client speak TLS, check the server's name and its authority, and show their
own certificate where one is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from operators.redis_writer import RedisWriter
from tests.answers import result
from tests.integration.redis_fixture import RedisServer
from tests.integration.tls_proxy import CERTS, tls_proxy
from tidemill.client import Tidemill
from tidemill.errors import RedisAway, SettingsError, Unavailable
from tidemill.settings import AppSettings, RedisSettings, Settings

PREFIX = "tidemill:test"


def settings_of(port: int, **changes: Any) -> RedisSettings:
    ca = {"tls_ca": str(CERTS / "ca.pem")}
    return RedisSettings(host="127.0.0.1", port=port, tls=True, **ca | changes)


def write(redis: RedisSettings) -> None:
    writer = RedisWriter(redis, PREFIX)
    try:
        assert writer.write([("t", 1, "ok", None, result("t"))]) == [None]
    finally:
        writer.close()


def read(redis: RedisSettings, timeout_s: float) -> str:
    with Tidemill(Settings(app=AppSettings(name="tidemill", env="test"), redis=redis)) as client:
        return client.wait("t", timeout_s).task


def test_tls(redis_server: RedisServer) -> None:
    with tls_proxy(redis_server.port) as port:
        write(settings_of(port))
        assert read(settings_of(port), 10) == "t"


def test_mutual_tls(redis_server: RedisServer) -> None:
    own = {"tls_cert": str(CERTS / "client.pem"), "tls_key": str(CERTS / "client.key")}
    with tls_proxy(redis_server.port, mutual=True) as port:
        write(settings_of(port, **own))
        assert read(settings_of(port, **own), 10) == "t"
        with pytest.raises(RedisAway):
            write(settings_of(port))


def test_an_unknown_authority_is_refused(redis_server: RedisServer) -> None:
    with tls_proxy(redis_server.port) as port:
        with pytest.raises(RedisAway, match="CERTIFICATE_VERIFY_FAILED"):
            write(settings_of(port, tls_ca=""))
        with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
            read(settings_of(port, tls_ca=""), 0.3)


def test_plain_text_is_not_spoken_by_accident(redis_server: RedisServer) -> None:
    with pytest.raises(RedisAway):
        write(settings_of(redis_server.port))


@pytest.mark.parametrize("key", ["tls_ca", "tls_cert"])
def test_a_missing_file_is_a_settings_error(key: str) -> None:
    with pytest.raises(SettingsError, match=r"redis\.tls_ca, tls_cert or tls_key"):
        RedisWriter(settings_of(1, **{key: "/no/such.pem"}), PREFIX)
