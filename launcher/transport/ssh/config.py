"""How a machine is reached, by the inventory and the SSH configuration.

The inventory comes first, then the user's configuration as OpenSSH resolves it.
"""

import hashlib
import os
import re
import secrets
import shlex
import socket
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import paramiko

from launcher.core.model.inventory import Access
from launcher.transport.private import make_private
from launcher.transport.ssh.operation import Operation

CONNECT_S = 10.0
"""Seconds for each step of connecting; `ConnectTimeout` in the user's configuration is another."""

_ASK_S = 10.0
_ASKING = 8
_HOPS = 8

# Characters of a host or user: it becomes an argument, and a word of the user's own ProxyCommand
# (CVE-2023-51385, CVE-2017-1000117).
_HOST = re.compile(r"[A-Za-z0-9_.:][A-Za-z0-9_.:%-]*")
_USER = re.compile(r"""[^-\s\x00-\x1f\x7f`'"$;&<>|(){}][^\s\x00-\x1f\x7f`'"$;&<>|(){}]*""")
_HOP = re.compile(r"(?:ssh://)?(?:(?P<user>.+)@)?(?:\[(?P<six>[^]]+)\]|(?P<host>[^:@\[\]]+))(?::(?P<port>\d{1,5}))?/?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A machine as it is connected to. Two that are equal share a connection.

    `known_as` is its name in known_hosts files. `strict`: a host that is in none of them is refused. `agent`: the
    socket of the agent. `via`: the machine that is gone through.
    """

    address: str
    hostname: str
    port: int
    user: str
    known_as: str
    identities: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    agent: str | None = None
    agent_only_named: bool = False
    via: "Settings | None" = None
    proxy_command: str | None = None
    connect_s: float = CONNECT_S
    known_hosts: tuple[str, ...] = ()
    strict: bool = False
    pin: str | None = None


class _Told:
    """The configuration of a host, once it was asked for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lines: dict[str, list[str]] | None = None


class Resolver:
    """Resolves settings; OpenSSH is asked once for each machine.

    `home` is that of nvlaunch, not the user's. `strict` holds whatever OpenSSH's configuration says.
    """

    def __init__(self, home: Path, *, strict: bool = False) -> None:
        self._home, self._strict, self._user = home, strict, Path.home()
        self._asking = threading.BoundedSemaphore(_ASKING)
        self._known: dict[Access, Settings] = {}
        self._told: dict[tuple[str, str | None, int | None], _Told] = {}
        self._guard = threading.Lock()

    def resolve(self, at: Access, op: Operation) -> Settings:
        """Return the settings of a machine.

        RemoteError where its name cannot be used or OpenSSH refuses.
        """
        known = self._known.get(at)
        if known is None:
            known = self._known[at] = self._resolve(at, op, 0)
        return known

    def _resolve(self, at: Access, op: Operation, depth: int) -> Settings:
        if depth > _HOPS:
            op.fail("resolve", f"the jump hosts of `{at.address}` form a loop", "check `ProxyJump`")
        refuse(at, op)
        told = self._tell(at, op)
        settings = self._settings(at, told)
        jump = at.proxy_jump or _one(told, "proxyjump")
        if jump is None or jump == "none":
            command = None if at.proxy_jump else _one(told, "proxycommand")
            if command in (None, "none"):
                return settings
            return replace(settings, proxy_command=expand(command or "", self._tokens(at, settings)))
        # The inventory's key is used at jump hosts that the inventory names.
        identity = at.identity_file if at.proxy_jump else None
        return replace(settings, via=self._chain(jump, identity, op, depth))

    def _chain(self, jump: str, identity: str | None, op: Operation, depth: int) -> Settings | None:
        """Return the last of several jump hosts.

        Only the first is reached by its own configuration.
        """
        last: Settings | None = None
        for word in jump.split(","):
            hop = _hop(word.strip(), identity, op)
            settings = self._resolve(hop, op, depth + 1)
            last = settings if last is None else replace(settings, via=last, proxy_command=None)
        return last

    def _settings(self, at: Access, told: Mapping[str, list[str]]) -> Settings:
        hostname = (_one(told, "hostname") or at.address).lower()
        port = at.port or int(_one(told, "port") or 22)
        alias = _one(told, "hostkeyalias")
        settings = Settings(
            address=at.address,
            hostname=hostname,
            port=port,
            user=at.user or _one(told, "user") or _login(),
            known_as=alias.lower() if alias else hostname if port == 22 else f"[{hostname}]:{port}",
            agent=self._agent(_one(told, "identityagent")),
            agent_only_named=_one(told, "identitiesonly") == "yes",
            connect_s=_seconds(_one(told, "connecttimeout")),
            strict=self._strict or _one(told, "stricthostkeychecking") in ("yes", "true", "ask"),
            pin=at.host_key,
        )
        tokens = self._tokens(at, settings)
        named = [at.identity_file] if at.identity_file else told.get("identityfile", ())
        files = [*told.get("userknownhostsfile", ()), *told.get("globalknownhostsfile", ())]
        return replace(
            settings,
            identities=tuple(self._path(path, tokens) for path in named if path != "none"),
            certificates=tuple(self._path(path, tokens) for path in told.get("certificatefile", ()) if path != "none"),
            known_hosts=tuple(self._path(path, tokens) for text in files for path in _words(text) if path != "none"),
        )

    def _tokens(self, at: Access, settings: Settings) -> dict[str, str]:
        """Return the values of `%h` and other tokens (ssh_config(5), TOKENS)."""
        local = socket.gethostname()
        return {
            "%": "%",
            "h": settings.hostname,
            "n": at.address,
            "p": str(settings.port),
            "r": settings.user,
            "d": str(self._user),
            "u": _login(),
            "i": str(os.getuid()),
            "k": settings.known_as,
            "l": local,
            "L": local.split(".", 1)[0],
        }

    def _path(self, path: str, tokens: Mapping[str, str]) -> str:
        if path == "~" or path.startswith("~/"):
            path = str(self._user) + path[1:]
        return os.path.expanduser(os.path.expandvars(expand(path.strip('"'), tokens)))  # noqa: PTH111 may be `~other`

    def _agent(self, named: str | None) -> str | None:
        if named is None or named == "SSH_AUTH_SOCK":
            return os.environ.get("SSH_AUTH_SOCK")
        return None if named == "none" else self._path(named, {})

    def _tell(self, at: Access, op: Operation) -> dict[str, list[str]]:
        """Return the configuration of a host, asked once.

        Many machines that wait for one jump host get the same reply.
        """
        with self._guard:
            told = self._told.setdefault((at.address, at.user, at.port), _Told())
        with told.lock:
            if told.lines is None:
                told.lines = self._ask(at, op)
            return told.lines

    def _ask(self, at: Access, op: Operation) -> dict[str, list[str]]:
        """Return OpenSSH's configuration of a host.

        Without `ssh`, what paramiko reads from the user's file.
        """
        options = [("-l", at.user), ("-p", at.port)]
        given = [word for key, value in options if value is not None for word in (key, str(value))]
        argv = ["ssh", "-G", "-F", self._wrapped(op), *given, "--", at.address]
        try:
            with self._asking:
                done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_S)
        except FileNotFoundError:
            return self._parse(at, op)
        except subprocess.TimeoutExpired:
            hint = "check `Match exec` in the SSH configuration"
            op.fail("resolve", f"`ssh -G` did not end within {_ASK_S:.0f} s", hint)
        if done.returncode != 0:
            said = tuple(done.stderr.decode(errors="replace").strip().splitlines()[-5:])
            message = f"OpenSSH refuses its configuration: {said[-1] if said else f'status {done.returncode}'}"
            op.fail("resolve", message, "reproduce it with `ssh -G HOST`", tail=said)
        told: dict[str, list[str]] = {}
        for line in done.stdout.decode(errors="replace").splitlines():
            key, _, value = line.partition(" ")
            told.setdefault(key, []).append(value)
        return told

    def _wrapped(self, op: Operation) -> str:
        """Return a configuration file with our defaults after the user's.

        It includes the user's and the machine's, as ssh does. `ssh -G` alone prints `ask` where nothing is configured,
        and also where `ask` is.
        """
        own = self._user / ".ssh"
        text = f'Include "{own}/config"\nInclude /etc/ssh/ssh_config\nMatch all\n'
        text += f'  UserKnownHostsFile "{own}/known_hosts" "{own}/known_hosts2"\n  StrictHostKeyChecking accept-new\n'
        path = self._home / f"ssh-{hashlib.sha256(text.encode()).hexdigest()[:8]}.conf"
        with self._guard:
            if not path.exists():
                try:
                    make_private(self._home)
                    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
                    fresh.touch(mode=0o600)  # before its content: it may name commands
                    fresh.write_text(text)
                    fresh.replace(path)
                except OSError as error:
                    op.fail(
                        "resolve", f"cannot write to `{self._home}`: {error.strerror}", "make `$NVLAUNCH_HOME` writable"
                    )
        return str(path)

    def _parse(self, at: Access, op: Operation) -> dict[str, list[str]]:
        config = paramiko.SSHConfig()
        try:
            with (self._user / ".ssh" / "config").open() as file:
                config.parse(file)
            found: dict[str, Any] = dict(config.lookup(at.address))
        except FileNotFoundError:
            found = {}
        except (OSError, ValueError, paramiko.SSHException) as error:
            op.fail("resolve", f"cannot read `{self._user}/.ssh/config`: {error}", "install OpenSSH's `ssh`")
        told = {key: value if isinstance(value, list) else [value] for key, value in found.items()}
        told.setdefault("identityfile", [f"~/.ssh/id_{kind}" for kind in ("ed25519", "ecdsa", "rsa")])
        told.setdefault("userknownhostsfile", ["~/.ssh/known_hosts ~/.ssh/known_hosts2"])
        told.setdefault("globalknownhostsfile", ["/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"])
        return told


def refuse(at: Access, op: Operation) -> None:
    """Raise RemoteError for a host, user or port that is no plain name.

    A program that gets it could take it for something else.
    """
    for what, word, allowed in (("address", at.address, _HOST), ("user", at.user, _USER)):
        if word is not None and not allowed.fullmatch(word):
            op.fail("resolve", f"invalid {what} `{word!r}`", f"correct the {what} in the inventory")
    if at.port is not None and not 0 < at.port < 65536:
        op.fail("resolve", f"invalid port `{at.port}`", "correct the port in the inventory")


def expand(text: str, tokens: Mapping[str, str]) -> str:
    """Return a text with `%x` replaced; an unknown token stays."""
    return re.sub(r"%(.)", lambda found: tokens.get(found[1], found[0]), text)


def _hop(word: str, identity: str | None, op: Operation) -> Access:
    found = _HOP.fullmatch(word)
    if found is None:
        op.fail("resolve", f"invalid jump host `{word!r}`", "write [user@]host[:port]")
    port = int(found["port"]) if found["port"] else None
    return Access(address=found["six"] or found["host"], user=found["user"], port=port, identity_file=identity)


def _one(told: Mapping[str, list[str]], key: str) -> str | None:
    values = told.get(key)
    return values[0] if values else None


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _seconds(text: str | None) -> float:
    return float(text) if text and text.isdecimal() and int(text) > 0 else CONNECT_S


def _login() -> str:
    import getpass

    return getpass.getuser()
