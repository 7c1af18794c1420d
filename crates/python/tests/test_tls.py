"""A cluster behind Dask's TLS: the commands of docs/python.md, with certificates made here."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

import netcliff
import netcliff.dask
import pytest
import xarray as xr
from certificates import Authority
from conftest import ANSWERED
from distributed import Client
from distributed.security import Security

NOT_LET_IN = (OSError, TimeoutError)


@dataclass
class Cluster:
    """A scheduler and a worker, each a process with a certificate of its own."""

    authority: Authority
    address: str

    def files(self, name: str) -> list[str]:
        return tls_files(self.authority, name)


def tls_files(authority: Authority, name: str) -> list[str]:
    cert, key = authority.issue(name)
    return ["--tls-ca-file", str(authority.file), "--tls-cert", str(cert), "--tls-key", str(key)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen([sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]], stderr=subprocess.DEVNULL)
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(timeout=20)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    authority = Authority(tmp_path_factory.mktemp("tls") / "ours")
    address = f"tls://127.0.0.1:{free_port()}"
    found = Cluster(authority, address)
    local = str(tmp_path_factory.mktemp("scratch"))
    ports = ["--worker-port", str(free_port()), "--nanny-port", str(free_port()), "--no-dashboard"]
    with (
        process("dask_scheduler", "--host", address, "--no-dashboard", *found.files("scheduler")) as scheduler,
        process("dask_worker", address, *ports, "--nthreads", "1", "--local-directory", local, *found.files("worker")),
    ):
        assert scheduler.poll() is None
        yield found


def client(cluster: Cluster) -> Client:
    cert, key = cluster.authority.issue("client")
    # The example of docs/python.md.
    security = Security(
        tls_ca_file=str(cluster.authority.file), tls_client_cert=str(cert), tls_client_key=str(key), require_encryption=True
    )
    return Client(cluster.address, security=security, timeout="30s")


def test_a_sweep_over_tls_gives_the_same_digits(cluster: Cluster, experiment: Path) -> None:
    with client(cluster) as ours:
        ours.wait_for_workers(1, timeout=60)
        addresses = list(ours.scheduler_info()["workers"])
        assert addresses and all(address.startswith("tls://") for address in addresses)
        xr.testing.assert_identical(netcliff.dask.sweep(experiment, ours), netcliff.sweep(experiment))


def test_what_is_sent_is_encrypted(cluster: Cluster) -> None:
    """A client that speaks no TLS gets no word of Dask's protocol."""
    host, port = re.fullmatch(r"tls://(.*):(\d+)", cluster.address).groups()  # type: ignore[union-attr]
    with socket.create_connection((host, int(port)), timeout=10) as plain:
        plain.sendall(b"\x00" * 64)
        plain.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            said = plain.recv(4096)
            # An alert of TLS (record type 21), or the end.
            assert said == b"" or said[0] == 21
    with pytest.raises(NOT_LET_IN):
        Client(cluster.address.replace("tls://", "tcp://"), timeout="3s")


def test_a_certificate_of_another_authority_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    cert, key = other.issue("client")
    # It trusts our scheduler: it is the scheduler that refuses.
    theirs = Security(
        tls_ca_file=str(cluster.authority.file), tls_client_cert=str(cert), tls_client_key=str(key), require_encryption=True
    )
    with pytest.raises(NOT_LET_IN):
        Client(cluster.address, security=theirs, timeout="3s")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "netcliff", "run", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_module_runs_over_tls(cluster: Cluster, experiment: Path, tmp_path: Path) -> None:
    store = tmp_path / "tls.db"
    said = run(str(experiment), "--scheduler", cluster.address, *cluster.files("driver"), "--store", str(store))
    assert said.returncode == 0, said.stderr
    assert len(netcliff.Store(store).records()) == ANSWERED


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda files: files[:4], "--tls-key: missing"),
        (lambda files: [*files[:5], "nothing.pem"], "--tls-key nothing.pem: there is no such file"),
        (lambda files: [*files, "--scheduler", "tcp://127.0.0.1:1"], "expected tls://HOST:PORT"),
    ],
)
def test_wrong_tls_files_are_named(cluster: Cluster, experiment: Path, change: object, part: str) -> None:
    files = change(cluster.files("driver"))  # type: ignore[operator]
    said = run(str(experiment), "--scheduler", cluster.address, *files)
    assert said.returncode == 2 and part in said.stderr and said.stderr.count("\n") == 1
