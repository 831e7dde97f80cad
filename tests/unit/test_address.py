"""Contract: an address says where a worker is; what can't be used safely is refused with its remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.address import (
    AddressError,
    TcpAddress,
    TlsFiles,
    UnixAddress,
    parse_address,
    require_secure,
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:run/w.sock", UnixAddress(Path("run/w.sock"))),
        ("unix:/tmp/w.sock", UnixAddress(Path("/tmp/w.sock"))),
        ("tcp://worker-1:7001", TcpAddress("worker-1", 7001)),
        ("tcp://[::1]:0", TcpAddress("::1", 0)),
    ],
)
def test_an_address_reads_back_as_it_is_written(
    text: str, address: UnixAddress | TcpAddress
) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    ["", "w.sock", "unix:", "tcp://", "tcp://host", "tcp://:1", "tcp://h:x", "tcp://h:65536"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(AddressError, match="write unix:PATH or tcp://HOST:PORT"):
        parse_address(text)


def test_a_socket_path_that_the_system_can_not_bind_is_refused() -> None:
    assert parse_address("unix:/" + 106 * "a")
    with pytest.raises(AddressError, match="1 to 107 bytes"):
        parse_address("unix:/" + 107 * "a")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("db", False)],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert TcpAddress(host, 1).is_loopback == loopback


def test_tcp_needs_tls_or_loopback_that_was_allowed(tmp_path: Path) -> None:
    tls = TlsFiles(tmp_path, tmp_path, tmp_path)
    require_secure(UnixAddress(Path("w")), None, allow_plain_tcp=False)
    require_secure(TcpAddress("db", 1), tls, allow_plain_tcp=False)
    require_secure(TcpAddress("::1", 1), None, allow_plain_tcp=True)
    for address, allowed in ((TcpAddress("::1", 1), False), (TcpAddress("db", 1), True)):
        with pytest.raises(AddressError, match="mutual TLS"):
            require_secure(address, None, allow_plain_tcp=allowed)


def test_tls_files_are_all_set_and_there_or_none(tmp_path: Path) -> None:
    there = tmp_path / "a.pem"
    there.write_text("no certificate")
    assert TlsFiles.from_settings("", "", "") is None
    with pytest.raises(AddressError, match=r"not set: \['tls_key'\]"):
        TlsFiles.from_settings(str(there), str(there), "")
    with pytest.raises(AddressError, match="tls_key: no file"):
        TlsFiles.from_settings(str(there), str(there), str(tmp_path / "b.pem"))
    broken = TlsFiles.from_settings(str(there), str(there), str(there))
    assert broken is not None
    for make in (broken.client_context, broken.server_context):
        with pytest.raises(AddressError, match=r"a\.pem"):
            make()
