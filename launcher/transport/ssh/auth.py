"""Logs in by keys, certificates and the SSH agent, never by a prompt."""

import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import paramiko
from paramiko.agent import AgentSSH

from launcher.transport.ssh.config import Settings
from launcher.transport.ssh.operation import LoginRefusedError, NoJobError, Operation

_AGENT_S = 10.0


class _Agent(AgentSSH):
    """The keys of an SSH agent, which is never forwarded to a machine."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._link = socket.socket(socket.AF_UNIX)
        self._link.settimeout(_AGENT_S)
        try:
            self._link.connect(path)
            self._connect(self._link)  # type: ignore[attr-defined]
        except BaseException:
            self._link.close()
            raise

    def close(self) -> None:
        """Close the connection to the SSH agent."""
        self._link.close()


class PrivateKeys:
    """Private keys by their file, each read once."""

    def __init__(self) -> None:
        self._loaded: dict[tuple[str, int, bool], paramiko.PKey] = {}
        self._guard = threading.Lock()

    def load(self, path: str, *, bare: bool = False) -> paramiko.PKey:
        """Return a key with the certificate that lies beside it, or `bare` of that."""
        name = (path, Path(path).stat().st_mtime_ns, bare)
        with self._guard:
            if name not in self._loaded:
                key = paramiko.PKey.from_path(path)
                if bare:
                    key.public_blob = None
                self._loaded[name] = key
            return self._loaded[name]


def log_in(transport: paramiko.Transport, settings: Settings, keys: PrivateKeys, op: Operation) -> None:
    """Log in on a connection with a good host key; RemoteError says what was tried."""
    told: list[str] = []
    agent = _agent(settings, told)
    try:
        for name, key in _offers(settings, keys, agent, told):
            told.append(name)
            transport.auth_timeout = max(0.001, op.left)
            try:
                more = transport.auth_publickey(settings.user, key)
            except paramiko.BadAuthenticationType as error:
                op.fail(
                    "auth",
                    f"`{settings.user}` cannot log in with a key: sshd accepts {' or '.join(error.allowed_types)}",
                    "enable `publickey` in its sshd_config: nvlaunch types no password",
                )
            except paramiko.AuthenticationException:
                if op.left == 0:
                    message = f"no answer to the login of `{settings.user}` within {op.timeout:.0f} s"
                    op.fail("auth", message, "check the file server of its home, and its directory service")
                if transport.is_active():
                    continue
                _refused(settings, [*told, "then sshd closed the connection"], op, transport.get_banner())
            if more:
                op.fail("auth", f"the login needs {' and '.join(more)} besides a key", "nvlaunch answers no prompts")
            return
    finally:
        if agent is not None:
            agent.close()
    _refused(settings, told, op, transport.get_banner())


_SLURM = re.compile(r"slurm|\bactive jobs?\b", re.IGNORECASE)
"""What `pam_slurm_adopt` and `pam_slurm` say to a user without a job on the node."""
_DENIED = re.compile(r"[^\n]*(?:slurm|denied|no active job)[^\n]*", re.IGNORECASE)


def _refused(settings: Settings, told: list[str], op: Operation, banner: bytes | None) -> NoReturn:
    message = f"permission denied for `{settings.user}`; tried {', '.join(told) if told else 'no key'}"
    # PAM says why an account may not log in, where the key was good: pam_slurm_adopt, for example.
    why = _DENIED.search((banner or b"")[:4096].decode(errors="replace"))
    if why is not None:
        said = "".join(c if c.isprintable() else "?" for c in why[0].strip()[:200])
        message = f"{message}; the node says: {said}"
        if _SLURM.search(said):
            slurm = f"Slurm has this node, and `{settings.user}` has no job there: ask it for the node first, or"
            raise op.error("auth", message, f"{slurm} take the node out of the inventory", kind=NoJobError)
        op.fail("auth", message)
    hints = []
    if any("passphrase" in one for one in told):
        hints.append("load the key into an SSH agent with `ssh-add`: nvlaunch asks for no passphrase")
    if not any(one.startswith(("key", "agent key", "certificate")) for one in told):
        hints.append("set `identity_file` in the inventory, or start an SSH agent that has the key")
    hints.append(f"check that the key is in `authorized_keys` of `{settings.user}`, and that this is the right user")
    raise op.error("auth", message, *hints, kind=LoginRefusedError)


def _agent(settings: Settings, told: list[str]) -> _Agent | None:
    if settings.agent is None:
        return None
    try:
        return _Agent(settings.agent)
    except (OSError, paramiko.SSHException, EOFError) as error:
        told.append(f"SSH agent `{settings.agent}` (does not answer: {error})")
        return None


def _offers(
    settings: Settings, keys: PrivateKeys, agent: _Agent | None, told: list[str]
) -> Iterator[tuple[str, paramiko.PKey]]:
    """Return the keys to offer: those that are named, then the SSH agent's.

    A named key is taken from the SSH agent where it has it. sshd counts every offer (MaxAuthTries 6), so that named
    keys come first.
    """
    held = {key.asbytes(): key for key in agent.get_keys()} if agent else {}
    for path in settings.identities:
        public = _public(path)
        if public in held:
            yield f"agent key `{path}`", held.pop(public)
            continue
        yield from _from_file(path, settings, keys, told)
    if not settings.agent_only_named:
        for key in held.values():
            yield f"agent key {key.get_name()}", key


def _from_file(
    path: str, settings: Settings, keys: PrivateKeys, told: list[str]
) -> Iterator[tuple[str, paramiko.PKey]]:
    try:
        key = keys.load(path)
        bare = keys.load(path, bare=True)
    except FileNotFoundError:
        if path == settings.identities[0]:
            told.append(f"`{path}` (no such file)")
        return
    except (paramiko.PasswordRequiredException, TypeError):
        told.append(f"`{path}` (has a passphrase)")
        return
    except Exception as error:  # noqa: BLE001 whatever the parsers make of a file that is no key
        told.append(f"`{path}` (cannot be used: {str(error) or type(error).__name__})")
        return
    for certificate in settings.certificates:
        signed = _certified(path, certificate)
        if signed is not None:
            yield f"certificate `{certificate}`", signed
    if key.public_blob is not None:
        yield f"certificate `{path}-cert.pub`", key
    yield f"key `{path}`", bare


def _certified(path: str, certificate: str) -> paramiko.PKey | None:
    """Return a key with a certificate, if that is of this key.

    A certificate contains the public key after the type.
    """
    try:
        key = paramiko.PKey.from_path(path)
        key.load_certificate(certificate)
    except (OSError, ValueError, paramiko.SSHException):
        return None
    own = key.asbytes()[4 + len(key.get_name()) :]
    return key if key.public_blob is not None and own in key.public_blob.key_blob else None


def _public(path: str) -> bytes | None:
    """Return the public half that lies beside a private key."""
    from base64 import b64decode

    try:
        return b64decode(Path(f"{path}.pub").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
