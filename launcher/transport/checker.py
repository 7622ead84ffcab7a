"""The `Checker` port over a shell: one program on each node, that ends with its connection."""

import io
import json
import secrets
import sys
import threading
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from queue import SimpleQueue
from typing import Any, TypeAlias, cast

from launcher.core.checks.results import CheckedNode, CheckGroup, cannot_tell, judge
from launcher.core.model.inventory import Node
from launcher.core.model.secret_words import is_secret_name
from launcher.errors import LaunchError, RemoteError
from launcher.ports import Shell
from launcher.runtime.protocol_programs import CheckReply, CheckRequest
from launcher.setup import checks
from launcher.setup.layout import PACKAGE
from launcher.transport.upload.bundle import programs

HIDDEN = "<hidden>"
SHORTEST = 4
"""Characters. A shorter value occurs everywhere: to hide it would tell more than it hides."""

MOST = 1 << 17
"""Bytes of a reply; it has the last 8 kB of two streams, as JSON."""

TAIL = 10
LINE = 200

_BEFORE = {"held": "in use: ", "taken": "stopped, since the node is wanted: "}

_Told: TypeAlias = tuple[int, CheckedNode]


class _StoppedError(LaunchError):
    """The check is not wanted any more."""


class ShellChecker:
    """Runs checks through a shell.

    `leases` are the paths of a machine's lease. `shared`: all nodes are parts of this machine, without leases, and
    programs have its variables instead of those of a login.
    """

    def __init__(self, shell: Shell, leases: Sequence[str] = (), *, shared: bool = False) -> None:
        self._shell = shell
        self._leases = leases
        self._shared = shared

    def check(self, group: CheckGroup, stopped: Callable[[], bool]) -> tuple[CheckedNode, ...]:
        """Return the result of each node."""
        token = f"c{secrets.token_hex(6)}"
        given = checks.variables(group.nodes, group.name, checks.port_of(token[1:]))
        broken = (
            threading.Event()
        )  # one of the nodes cannot begin: the others would wait for it until their time is over
        told: SimpleQueue[_Told] = SimpleQueue()

        def work(at: int, node: Node) -> None:
            try:
                found = self._one(node, self._request(group, token, given[node.name]), stopped, broken)
            except Exception as error:  # noqa: BLE001  a bug in one thread must not leave the others waiting
                found = cannot_tell(node.name, f"{type(error).__name__}: {error}")
                broken.set()
            told.put((at, found))

        for at, node in enumerate(group.nodes):
            threading.Thread(target=work, args=(at, node), name="check", daemon=True).start()
        found = dict(told.get() for _ in group.nodes)
        return tuple(found[at] for at in range(len(group.nodes)))

    def close(self) -> None:
        """Close connections."""
        self._shell.close()

    def _request(self, group: CheckGroup, token: str, env: dict[str, str]) -> CheckRequest:
        return {
            # Local nodes share a machine: without a token of its own, the end of one check would be that of all.
            "token": f"{token}-{env['NVLAUNCH_NODE_RANK']}",
            "script": group.check.script,
            "env": env,
            "limit": group.check.limit,
            "lease": list(self._leases),
            "holder": checks.describe_check(group.name, group.by),
            "beside": group.beside or "",
            "idle": group.idle,
            "login": not self._shared,
        }

    def _one(
        self,
        node: Node,
        request: CheckRequest,
        stopped: Callable[[], bool],
        broken: threading.Event,
    ) -> CheckedNode:
        call = checks.call(_archive(), request, node.access.python or (sys.executable if self._shared else None))
        said = bytearray()

        def take(part: bytes) -> None:
            said.extend(part)
            del said[:-MOST]
            if broken.is_set() or stopped():
                raise _StoppedError("stopped")

        try:
            ended = self._shell.run(node.access, call.argv, stdin=call.stdin, timeout=call.timeout, take=take)
        except _StoppedError:
            if broken.is_set():
                return cannot_tell(node.name, "it could not begin on all nodes", waited=True)
            return cannot_tell(node.name, "it was stopped")
        except RemoteError as error:
            broken.set()
            return cannot_tell(node.name, error.advice)
        reply = _read(bytes(said))
        if reply is None:
            broken.set()
            return cannot_tell(node.name, _no_reply(ended.status, ended.stderr))
        found = _judged(node, reply)
        if reply["state"] in ("held", "failed", "taken"):
            broken.set()
        return _without_secrets(found, node.env)


@cache
def _archive() -> bytes:
    """Return the programs for nodes as an archive that Python imports from; made once."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (content, _) in programs().items():
            archive.writestr(name.replace(PACKAGE, checks.PACKAGE, 1), content)
    return packed.getvalue()


def _read(said: bytes) -> CheckReply | None:
    """Return the reply in the last line that a node has written; None where there is none, or it makes no sense."""
    try:
        reply: Any = json.loads(said.strip().rpartition(b"\n")[2])
        texts = (reply["state"], reply["message"], reply["stdout"], reply["stderr"])
        status, seconds, left = reply["status"], reply["seconds"], reply["left"]
    except (ValueError, KeyError, TypeError):
        return None
    known = all(isinstance(text, str) for text in texts) and isinstance(seconds, float) and isinstance(left, list)
    fits = known and (status is None or (isinstance(status, int) and 0 <= status <= 255))
    return cast("CheckReply", reply) if fits else None


def _judged(node: Node, reply: CheckReply) -> CheckedNode:
    lines = [line[:LINE] for line in f"{reply['stdout']}\n{reply['stderr']}".splitlines() if line.strip()]
    tail, seconds = tuple(lines[-TAIL:]), min(1e6, max(0.0, reply["seconds"]))
    if reply["left"]:
        message = f"{len(reply['left'])} of its processes could not be killed"
    elif reply["state"] == "ended" and reply["status"] is not None:
        return judge(node.name, reply["status"], reply["stdout"], tail, seconds)
    else:
        message = _BEFORE.get(reply["state"], "") + reply["message"][:LINE]
    late = reply["state"] == "timed-out"
    return replace(cannot_tell(node.name, message, timed_out=late), tail=tail, seconds=seconds)


def _no_reply(status: int, stderr: bytes) -> str:
    if status == checks.NO_PYTHON:
        return "the node has no Python 3.10 or later; name one with `python:` in the inventory"
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    return f"no result, exit status {status}" + (f": {lines[-1][:LINE]}" if lines else "")


def _without_secrets(found: CheckedNode, env: Mapping[str, str]) -> CheckedNode:
    """Return a result without the values of variables whose names tell of secrets."""
    values = {value for name, value in env.items() if is_secret_name(name) and len(value) >= SHORTEST}

    def hide(text: str) -> str:
        for value in sorted(values, key=len, reverse=True):
            text = text.replace(value, HIDDEN)
        return text

    return replace(found, message=hide(found.message), tail=tuple(map(hide, found.tail))) if values else found
