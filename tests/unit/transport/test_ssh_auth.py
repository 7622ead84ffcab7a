"""What is said where a machine refuses a login, by a server in this process."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import paramiko
import pytest

from launcher.errors import RemoteError
from launcher.transport.ssh.auth import PrivateKeys, log_in
from launcher.transport.ssh.config import Settings
from launcher.transport.ssh.operation import NoJobError, Operation


class Refusing(paramiko.ServerInterface):
    """A server that takes no key, and shows a banner."""

    def __init__(self, banner: str) -> None:
        self._banner = banner

    def get_banner(self) -> tuple[str, str]:
        return self._banner, "en-US"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.common.AUTH_FAILED

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"


@contextmanager
def connected(banner: str) -> Iterator[paramiko.Transport]:
    """A connection to such a server."""
    here, there = socket.socketpair()
    server, client = paramiko.Transport(there), paramiko.Transport(here)
    try:
        server.add_server_key(paramiko.ECDSAKey.generate())
        server.start_server(event=threading.Event(), server=Refusing(banner))
        client.start_client(timeout=10)
        yield client
    finally:
        client.close()
        server.close()


def refusal(banner: str, folder: Path) -> RemoteError:
    key = folder / "key"
    paramiko.ECDSAKey.generate().write_private_key_file(str(key))
    settings = Settings(
        address="n1", hostname="n1", port=22, user="ann", known_as="n1", identities=(str(key),), agent_only_named=True
    )
    with connected(banner) as transport, pytest.raises(RemoteError) as refused:
        log_in(transport, settings, PrivateKeys(), Operation("n1", 20.0))
    return refused.value


def test_words_of_slurm_are_quoted_with_what_to_do(tmp_path: Path) -> None:
    banner = "Welcome to the site.\nAccess denied by pam_slurm_adopt: you have no active jobs on this node\x07\n"
    refused = refusal(banner, tmp_path)
    assert refused.message.endswith(
        "the node says: Access denied by pam_slurm_adopt: you have no active jobs on this node?"
    )
    assert "Slurm has this node, and `ann` has no job there: ask it for the node first" in refused.advice
    assert isinstance(refused, NoJobError), "it may let us in later"


def test_other_words_of_a_node_are_quoted_and_are_no_reason_to_wait(tmp_path: Path) -> None:
    refused = refusal("Access denied: the account of ann has expired\n", tmp_path)
    assert refused.message.endswith("the node says: Access denied: the account of ann has expired")
    assert not isinstance(refused, NoJobError)


def test_a_banner_for_everybody_is_not_quoted(tmp_path: Path) -> None:
    refused = refusal("Welcome to the site.\n" * 300, tmp_path)
    assert "Welcome" not in refused.advice
    assert "authorized_keys" in refused.advice
