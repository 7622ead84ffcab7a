"""The host keys that a machine may have.

By the inventory's pin, the user's known_hosts files and our own. The user's files are read and never written. Ours
learns the keys of machines that are in none of them.
"""

import base64
import binascii
import contextlib
import fcntl
import fnmatch
import hashlib
import hmac
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from launcher.ports import LearntKey
from launcher.transport.private import make_private
from launcher.transport.ssh.config import Settings
from launcher.transport.ssh.operation import HostKeyError, Operation

_SIGNATURES = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}


@dataclass(frozen=True, slots=True)
class HostKey:
    """A public host key: its type, and its bytes as they travel."""

    kind: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """Return it as OpenSSH shows it: `SHA256:...`."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Return the names by which this type is negotiated."""
        return _SIGNATURES.get(self.kind, (self.kind,))

    def line(self, name: str) -> str:
        """Return the line of a known_hosts file that gives `name` this key."""
        return f"{name} {self.kind} {base64.b64encode(self.blob).decode()}\n"


class Marker(Enum):
    """The marker of a line of a known_hosts file (sshd(8))."""

    HOST = ""
    AUTHORITY = "@cert-authority"
    REVOKED = "@revoked"


@dataclass(frozen=True, slots=True)
class KnownHostsLine:
    """A line of a known_hosts file."""

    path: str
    marker: Marker
    names: str
    key: HostKey

    def covers(self, name: str) -> bool:
        """Whether the line is about a host."""
        if self.names.startswith("|1|"):
            return _hashed(self.names, name)
        found = False
        for pattern in self.names.lower().split(","):
            if pattern.startswith("!") and fnmatch.fnmatchcase(name, _literal(pattern[1:])):
                return False
            found = found or fnmatch.fnmatchcase(name, _literal(pattern))
        return found


@dataclass(frozen=True, slots=True)
class KnownHosts:
    """What the files say of a host."""

    keys: tuple[KnownHostsLine, ...] = ()
    revoked: tuple[KnownHostsLine, ...] = ()
    authorities: tuple[KnownHostsLine, ...] = ()

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Return the algorithms to negotiate first.

        With them the machine presents a key that can be compared.
        """
        return tuple(dict.fromkeys(name for entry in self.keys for name in entry.key.algorithms))


@dataclass(slots=True)
class _File:
    """A file as it was read.

    Plain names have an index: a site's file may have thousands of lines.
    """

    seen: tuple[int, ...] = ()
    named: dict[str, list[KnownHostsLine]] = field(default_factory=dict)
    others: list[KnownHostsLine] = field(default_factory=list)


class HostKeys:
    """The known_hosts files of the user, and our own at `own`."""

    def __init__(self, own: Path) -> None:
        self.own = own
        self.learnt: list[LearntKey] = []
        self._files: dict[str, _File] = {}
        self._guard = threading.Lock()

    def known(self, settings: Settings) -> KnownHosts:
        """Return what the user's files and ours say of a machine."""
        paths = (*settings.known_hosts, str(self.own))
        found = [entry for path in paths for entry in self._about(path, settings.known_as)]
        return KnownHosts(*(tuple(entry for entry in found if entry.marker is marker) for marker in _KINDS))

    def knows(self, settings: Settings, key: HostKey) -> bool:
        """Whether a machine may have this key, as far as known."""
        return _allows(self.known(settings), settings, key)

    def judge(self, settings: Settings, key: HostKey, op: Operation) -> None:
        """Return if the machine may have this key; HostKeyError otherwise.

        A key is learnt where nothing is known of the machine.
        """
        known = self.known(settings)  # read once: another process may learn the same key meanwhile
        if _allows(known, settings, key):
            return
        shown = key.fingerprint
        if any(entry.key == key for entry in known.revoked):
            raise _error(op, key, f"host key {shown} is revoked in `{known.revoked[0].path}`", ())
        if settings.pin is not None:
            raise _changed(settings, key, op, f"the inventory pins {settings.pin}", (settings.pin,))
        if known.keys:
            old = tuple(dict.fromkeys(entry.key.fingerprint for entry in known.keys))
            where = ", ".join(f"`{path}`" for path in dict.fromkeys(entry.path for entry in known.keys))
            raise _changed(settings, key, op, f"{' and '.join(old)} is known from {where}", old)
        if known.authorities:
            words = f"unknown host key {shown}, and host certificates (@cert-authority) are not supported"
            raise _error(op, key, words, (_trust(shown),))
        if settings.strict:
            raise _error(op, key, f"unknown host key {shown}, and {_STRICT}", (_trust(shown),))
        self._learn(settings, key, op)

    def replace(self, name: str, key: HostKey) -> None:
        """Make this the only key of a host in our own file."""
        with self._writing() as lines:
            lines[:] = [line for line in lines if name not in _plain_names(line)]
            lines.append(key.line(name))

    def _learn(self, settings: Settings, key: HostKey, op: Operation) -> None:
        """Add a key to our file, unless another process just added another one."""
        with self._writing() as lines:
            there = [entry for line in lines if (entry := _entry(line, str(self.own)))]
            mine = [entry for entry in there if entry.covers(settings.known_as)]
            if not mine:
                lines.append(key.line(settings.known_as))
        if not mine:
            self.learnt.append(LearntKey(host=settings.known_as, fingerprint=key.fingerprint, kept=str(self.own)))
        if mine and all(entry.key != key for entry in mine):
            old = tuple(entry.key.fingerprint for entry in mine)
            raise _changed(settings, key, op, f"{old[0]} is known from `{self.own}`", old)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[list[str]]:
        """Yield the lines of our file, to be changed.

        Other writers wait; readers see the old or the new file.
        """
        make_private(self.own.parent)
        lock = os.open(self.own.with_name(f"{self.own.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self.own.read_text().splitlines(keepends=True) if self.own.exists() else []
            lines = list(before)
            yield lines
            if lines != before:
                fresh = self.own.with_name(f".{self.own.name}.{os.getpid()}")
                with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                    file.write("".join(lines))
                fresh.replace(self.own)
        finally:
            os.close(lock)

    def _about(self, path: str, name: str) -> Iterable[KnownHostsLine]:
        file = self._read(path)
        return [*file.named.get(name, ()), *(entry for entry in file.others if entry.covers(name))]

    def _read(self, path: str) -> _File:
        try:
            stat = Path(path).stat()
            seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            with self._guard:
                file = self._files.get(path)
                if file is None or file.seen != seen:
                    file = self._files[path] = _parsed(Path(path).read_text(errors="replace"), path, seen)
                return file
        except OSError:
            return _File()


def _allows(known: KnownHosts, settings: Settings, key: HostKey) -> bool:
    if any(entry.key == key for entry in known.revoked):
        return False
    if settings.pin is not None:
        return settings.pin.rstrip("=") == key.fingerprint
    return any(entry.key == key for entry in known.keys)


_KINDS = (Marker.HOST, Marker.REVOKED, Marker.AUTHORITY)


def _parsed(text: str, path: str, seen: tuple[int, ...]) -> _File:
    file = _File(seen)
    for line in text.splitlines():
        entry = _entry(line, path)
        if entry is None:
            continue
        if any(sign in entry.names for sign in "|*?!"):
            file.others.append(entry)
            continue
        for name in entry.names.lower().split(","):
            file.named.setdefault(name, []).append(entry)
    return file


def _entry(line: str, path: str) -> KnownHostsLine | None:
    """Return a line as an entry.

    None for comments, and for what OpenSSH skips as well.
    """
    words = line.split()
    if not words or words[0].startswith("#"):
        return None
    marker = Marker.HOST
    if words[0].startswith("@"):
        if words[0] not in (Marker.AUTHORITY.value, Marker.REVOKED.value):
            return None
        marker = Marker(words.pop(0))
    try:
        names, kind, text = words[:3]
        blob = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return None
    return KnownHostsLine(path, marker, names, HostKey(kind, blob))


def _plain_names(line: str) -> list[str]:
    return line.split(" ", 1)[0].split(",")


def _literal(pattern: str) -> str:
    """Return a pattern of OpenSSH as one of fnmatch.

    Brackets, as in `[host]:2222`, stand for themselves.
    """
    return pattern.replace("[", "[[]")


def _hashed(names: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in names[3:].split("|"))
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(hmac.digest(salt, name.encode(), "sha1"), digest)


_STRICT = "`host_keys` of the inventory, or `StrictHostKeyChecking` of your SSH configuration, accepts no new ones"


def _trust(fingerprint: str) -> str:
    own = f"compare {fingerprint} with the machine's own key"
    return f"{own}, then set `host_key` of the node in the inventory, or add the key to `known_hosts`"


def _changed(settings: Settings, key: HostKey, op: Operation, why: str, old: tuple[str, ...]) -> HostKeyError:
    words = f"the host key has changed to {key.fingerprint}: {why}"
    return _error(op, key, words, (_advice(settings),), old)


def _advice(settings: Settings) -> str:
    reimaged = f"if `{settings.address}` was re-imaged or replaced"
    if settings.pin is not None:
        return f"{reimaged}, set the new `host_key` in the inventory; otherwise the connection may be intercepted"
    return f"{reimaged}: `nvlaunch hosts rekey {settings.address}`; otherwise the connection may be intercepted"


def _error(
    op: Operation, key: HostKey, words: str, hints: tuple[str, ...], expected: tuple[str, ...] = ()
) -> HostKeyError:
    error = HostKeyError(words, node=op.node, stage="host key", elapsed=op.elapsed, hints=hints)
    error.expected, error.presented = expected, key.fingerprint
    return error
