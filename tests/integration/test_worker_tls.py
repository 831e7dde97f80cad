"""Contract of a remote worker: TCP needs mutual TLS, and each side turns strangers away."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from models.address import AddressError
from models.link import connect
from models.worker_config import EXIT_SETTINGS, WorkerConfig
from tests.workers import WorkerProcess, running, tricky_model, values


class Authority:
    """A certificate authority whose files lie in `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.file = folder / "ca.pem"
        self._ca = trustme.CA()
        self._ca.cert_pem.write_to_path(self.file)

    def certificate(self, name: str, address: str = "127.0.0.1") -> dict[str, Any]:
        """Options of an end whose certificate this authority signs for an address."""
        issued = self._ca.issue_cert(address, common_name=name)
        cert, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        issued.private_key_pem.write_to_path(key)
        issued.cert_chain_pems[0].write_to_path(cert)
        return {"tls_ca": str(self.file), "tls_cert": str(cert), "tls_key": str(key)}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Our authority."""
    return Authority(tmp_path_factory.mktemp("ca") / "ours")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Somebody else's."""
    return Authority(tmp_path_factory.mktemp("ca") / "theirs")


def free_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


@pytest.fixture
def worker(tmp_path: Path, ours: Authority) -> Iterator[WorkerProcess]:
    """A worker on TCP with our certificate."""
    config = WorkerConfig(
        str(tricky_model(tmp_path / "model")),
        f"tcp://127.0.0.1:{free_port()}",
        **ours.certificate("worker"),
    )
    options = ours.certificate("client")
    with running(tmp_path, config, client_options=options) as started:
        started.client()
        yield started


def test_both_sides_of_one_authority_work_together(worker: WorkerProcess) -> None:
    client = worker.client()
    assert values(client.score(1, [(1, 2)])) == [3]
    assert isinstance(client.sock, ssl.SSLSocket)
    assert client.sock.version() == "TLSv1.3"


def test_frames_longer_than_a_tls_record_arrive_whole(worker: WorkerProcess) -> None:
    client = worker.client()
    for batch in range(0, 3000, 100):  # more than 16 KiB wait before the first is read
        for i in range(100):
            client.send(batch + i, [(-batch, i)] * 16)
        for i in range(100):
            assert values(client.receive()) == [i - batch] * 16


def _refused(worker: WorkerProcess, options: dict[str, Any]) -> None:
    """With TLS 1.3 a client learns at its first read that the server didn't want it."""
    with pytest.raises((ssl.SSLError, ConnectionError)):
        _greeting(connect(worker.address, 30, **options))


def _greeting(sock: socket.socket) -> bytes:
    with sock:
        data = sock.recv(1)
    if not data:
        raise ConnectionResetError("closed without a word")
    return data


def test_a_client_of_another_authority_is_refused(
    worker: WorkerProcess, ours: Authority, theirs: Authority
) -> None:
    mixed = {**theirs.certificate("client"), "tls_ca": str(ours.file)}
    _refused(worker, mixed)
    assert values(worker.client().score(1, [(1, 2)])) == [3]


def test_a_client_without_a_certificate_is_refused(worker: WorkerProcess, ours: Authority) -> None:
    host, _, port = worker.address.removeprefix("tcp://").partition(":")
    context = ssl.create_default_context(cafile=str(ours.file))
    plain = socket.create_connection((host, int(port)), 30)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        _greeting(context.wrap_socket(plain, server_hostname=host))


def test_a_worker_of_another_authority_is_not_trusted(
    worker: WorkerProcess, theirs: Authority
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(worker.address, 30, **theirs.certificate("client"))


def test_a_worker_with_a_certificate_for_another_host_is_not_trusted(
    tmp_path: Path, ours: Authority
) -> None:
    config = WorkerConfig(
        str(tricky_model(tmp_path / "model")),
        f"tcp://127.0.0.1:{free_port()}",
        **ours.certificate("elsewhere", "192.0.2.1"),
    )
    options = ours.certificate("client")
    with (
        running(tmp_path, config, client_options=options) as worker,
        pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"),
    ):
        worker.client()


def test_plain_bytes_on_the_tls_port_hold_up_nobody(worker: WorkerProcess) -> None:
    host, _, port = worker.address.removeprefix("tcp://").partition(":")
    with socket.create_connection((host, int(port)), 30) as silent:
        assert values(worker.client().score(1, [(1, 2)])) == [3]
        silent.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert values(worker.client().score(2, [(1, 2)])) == [3]


def test_tcp_without_tls_does_not_start(tmp_path: Path) -> None:
    address = f"tcp://127.0.0.1:{free_port()}"
    model = str(tricky_model(tmp_path / "model"))
    with running(tmp_path, WorkerConfig(model, address)) as worker:
        assert worker.process.wait(60) == EXIT_SETTINGS
        assert "TCP needs mutual TLS" in worker.text()
    with pytest.raises(AddressError, match="TCP needs mutual TLS"):
        connect(address, 1)


def test_plain_tcp_on_loopback_only_where_it_is_allowed(tmp_path: Path) -> None:
    model = str(tricky_model(tmp_path / "model"))
    open_to_all = WorkerConfig(model, f"tcp://0.0.0.0:{free_port()}", allow_plain_tcp=True)
    with running(tmp_path, open_to_all) as worker:
        assert worker.process.wait(60) == EXIT_SETTINGS
    loopback = WorkerConfig(model, f"tcp://127.0.0.1:{free_port()}", allow_plain_tcp=True)
    options = {"allow_plain_tcp": "yes"}
    with running(tmp_path, loopback, client_options=options) as worker:
        assert values(worker.client().score(1, [(1, 2)])) == [3]
