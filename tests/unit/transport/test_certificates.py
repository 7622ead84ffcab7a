"""The certificates of a run: who trusts whom, and where their keys are."""

import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest

from launcher.core.model.run import RunId
from launcher.setup.ray import TLS_CA, TLS_CERTIFICATE, TLS_KEY
from launcher.transport.upload import certificates

ONE, OTHER = RunId("one-abcdef"), RunId("other-abcdef")


def unit(home: Path, run: RunId, address: str) -> Path:
    """Return the folder of a unit with its files."""
    folder = home / "units" / run / address
    for name, (content, mode) in certificates.of_unit(home, run, address).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        (folder / name).chmod(mode)
    return folder


def context(side: ssl.Purpose, folder: Path) -> ssl.SSLContext:
    """Return what Ray does with the files: both sides show a certificate and ask for one."""
    made = ssl.create_default_context(side, cafile=str(folder / TLS_CA))
    made.load_cert_chain(folder / TLS_CERTIFICATE, folder / TLS_KEY)
    made.verify_mode = ssl.CERT_REQUIRED
    return made


def shake(server: Path, client: Path, name: str) -> str:
    """Return what a client reads from a server that it knows as `name`."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            with context(ssl.Purpose.CLIENT_AUTH, server).wrap_socket(theirs, server_side=True) as stream:
                stream.sendall(b"welcome")
        except OSError:
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with context(ssl.Purpose.SERVER_AUTH, client).wrap_socket(ours, server_hostname=name) as stream:
            return stream.recv(100).decode()
    finally:
        ours.close()
        thread.join()


@pytest.mark.parametrize("address", ["10.0.1.7", "fd00::7", "r01-n07.hall.example", "n" * 63 + ".hall.example"])
def test_units_of_a_run_talk_to_each_other(tmp_path: Path, address: str) -> None:
    server, client = unit(tmp_path, ONE, address), unit(tmp_path, ONE, "10.0.1.8")
    assert shake(server, client, address) == "welcome"
    assert shake(server, client, "127.0.0.1") == "welcome"


def test_a_unit_is_not_taken_for_another_address(tmp_path: Path) -> None:
    server, client = unit(tmp_path, ONE, "10.0.1.7"), unit(tmp_path, ONE, "10.0.1.8")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server, client, "10.0.1.9")


def test_another_run_is_not_trusted(tmp_path: Path) -> None:
    server, client = unit(tmp_path, ONE, "10.0.1.7"), unit(tmp_path, OTHER, "10.0.1.7")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server, client, "10.0.1.7")


def test_the_key_of_the_authority_stays_here_and_is_the_owners_alone(tmp_path: Path) -> None:
    files = certificates.of_unit(tmp_path, ONE, "10.0.1.7")
    (authority,) = (tmp_path / "runs" / ONE / "tls").iterdir()
    private = authority.read_bytes().split(b"-----END PRIVATE KEY-----")[0]
    assert stat.S_IMODE(authority.stat().st_mode) == 0o600
    assert stat.S_IMODE(authority.parent.stat().st_mode) == 0o700
    assert {mode for _, mode in files.values()} == {0o600}
    assert not any(private in content for content, _ in files.values())
