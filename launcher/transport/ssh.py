"""The shell of a machine over SSH: one kept connection a machine, its host key known before or refused."""

import io
import shlex
import tarfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import paramiko

from launcher.core.fleet import Access
from launcher.errors import RemoteError
from launcher.ports import Completed

CONNECT_S = 10.0
KEEPALIVE_S = 15

# Makes a folder of ours and unpacks a tar from stdin into it, each file by rename.
UNTAR = """
import os, sys, tarfile
root = sys.argv[1]
os.makedirs(root, mode=0o700, exist_ok=True)
with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as archive:
    for entry in archive:
        target = os.path.join(root, entry.name)
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        partial = "%s.%d" % (target, os.getpid())
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, entry.mode), "wb") as file:
            file.write(archive.extractfile(entry).read())
        os.replace(partial, target)
"""


class SshShell:
    """Runs commands over kept connections. A host whose key is not in `known_hosts` is refused, never learnt."""

    def __init__(self, known_hosts: Path) -> None:
        self._known_hosts = known_hosts
        self._clients: dict[Access, paramiko.SSHClient] = {}
        self._locks: dict[Access, threading.Lock] = {}
        self._guard = threading.Lock()

    def run(self, at: Access, argv: Sequence[str], *, stdin: bytes = b"", timeout: float) -> Completed:
        """Run a command to its end; RemoteError where the machine is not reached or the time is over."""
        begun = time.monotonic()
        # sshd leaves a command alone when its channel closes: only the machine itself can end it in time.
        command = f"exec timeout -k 1 {timeout:.0f} {shlex.join(argv)}"
        try:
            with self._open(at).open_session(timeout=min(CONNECT_S, timeout)) as channel:
                return _exchange(channel, command, stdin, timeout)
        except (paramiko.SSHException, OSError, EOFError) as error:
            if not isinstance(error, TimeoutError):  # one slow command is no reason to cut off the others
                self._forget(at)
            elapsed = time.monotonic() - begun
            words = f"`{at.address}`: {str(error) or type(error).__name__}"
            raise RemoteError(words, node=at.address, stage="connect", elapsed=elapsed) from error

    def put(self, at: Access, folder: str, files: Mapping[str, tuple[bytes, int]], *, timeout: float) -> None:
        """Write files below a folder (0700), each by rename; RemoteError where that is impossible."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            for name, (content, mode) in files.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(content), mode
                archive.addfile(entry, io.BytesIO(content))
        argv = [at.python or "python3", "-EsS", "-c", UNTAR, folder]
        ended = self.run(at, argv, stdin=out.getvalue(), timeout=timeout)
        if ended.status != 0:
            tail = tuple(ended.stderr.decode(errors="replace").strip().splitlines()[-5:])
            words = f"cannot write to `{folder}`: {tail[-1] if tail else f'status {ended.status}'}"
            raise RemoteError(words, node=at.address, stage="put", tail=tail)

    def close(self) -> None:
        """Close every connection; what runs on the machines goes on."""
        with self._guard:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def _open(self, at: Access) -> paramiko.Transport:
        with self._guard:
            lock = self._locks.setdefault(at, threading.Lock())
        with lock:
            client = self._clients.get(at)
            transport = client.get_transport() if client else None
            if transport is None or not transport.is_active():
                client = self._connect(at)
                transport = client.get_transport()
                self._clients[at] = client
            if transport is None:
                raise paramiko.SSHException("the connection was lost")
            return transport

    def _connect(self, at: Access) -> paramiko.SSHClient:
        client = paramiko.SSHClient()
        client.load_host_keys(str(self._known_hosts))
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        client.connect(
            at.address,
            port=at.port or 22,
            username=at.user,
            key_filename=str(Path(at.identity_file).expanduser()) if at.identity_file else None,
            timeout=CONNECT_S,
            banner_timeout=CONNECT_S,
            auth_timeout=CONNECT_S,
        )
        transport = client.get_transport()
        if transport is not None:
            transport.set_keepalive(KEEPALIVE_S)
        return client

    def _forget(self, at: Access) -> None:
        with self._guard:
            client = self._clients.pop(at, None)
        if client is not None:
            client.close()


def _exchange(channel: paramiko.Channel, command: str, stdin: bytes, timeout: float) -> Completed:
    """Run a command in a channel. All three streams at once: one that nobody reads would block the others."""
    channel.settimeout(timeout + 5)
    channel.exec_command(command)
    errors: list[bytes] = []
    sender = threading.Thread(target=_send, args=(channel, stdin), daemon=True)
    reader = threading.Thread(target=lambda: errors.append(channel.makefile_stderr("rb").read()), daemon=True)
    sender.start()
    reader.start()
    stdout = channel.makefile("rb").read()
    reader.join()
    return Completed(status=channel.recv_exit_status(), stdout=stdout, stderr=b"".join(errors))


def _send(channel: paramiko.Channel, data: bytes) -> None:
    try:
        channel.sendall(data)
        channel.shutdown_write()
    except OSError:
        return  # it ended without reading: its exit status says more
