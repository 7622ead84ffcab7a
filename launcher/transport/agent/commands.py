"""A person's own business on a node of a run: commands beside a rank, files back, a shell at a terminal."""

import json
from collections.abc import Sequence

from launcher.core.model.inventory import Node
from launcher.core.model.run import MemberName
from launcher.errors import RemoteError
from launcher.ports import Command, Hear, Stream, Take
from launcher.setup.environ import RunEnvironment
from launcher.transport.agent.answers import killed
from launcher.transport.agent.client import Site

AS_LONG_AS_IT_TAKES = 14 * 24 * 3600.0
"""Seconds: no limit of ours, where a dead connection is noticed by its own signs."""

BEYOND_S = 15.0
"""Seconds beyond a command's own time in which the node ends it and says so."""

STOP_S = 30.0
NO_SUCH_FILE = 3
_OVER = {b"t": "its time was over, and it was ended", b"g": "no agent of this run lives on the node"}
_UNTOLD = "the node has no programs of this run, or they broke"


def label(member: MemberName | None) -> str:
    """Return how the folder of a rank is called; `-` for none."""
    return member.replace("/", "-") if member else "-"


def execute(site: Site, environment: RunEnvironment, node: Node, command: Command, hear: Hear) -> int:
    """Run a command to its end; return its exit status. RemoteError says why it has none."""
    member = environment.index.by_name.get(command.member) if command.member else None
    given = environment.at_first.whole(environment.setup(node, member)) if member else dict(node.env)
    question = {
        "token": command.token,
        "argv": list(command.argv),
        "label": label(command.member).strip("-"),
        "env": given,
        "timeout": command.timeout,
    }
    frames = Frames(hear)
    limit = min(AS_LONG_AS_IT_TAKES, (command.timeout or AS_LONG_AS_IT_TAKES) + BEYOND_S)
    stdin = json.dumps(question).encode()
    ended = site.program("command", "run", site.layout.root, timeout=limit, stdin=stdin, take=frames.take)
    if frames.status is not None:
        return frames.status
    tail = tuple(ended.stderr.decode(errors="replace").strip().splitlines()[-20:])
    raise RemoteError(_OVER.get(frames.end, _UNTOLD), node=node.name, stage="exec", tail=tail)


class Frames:
    """Takes the stream of `launcher/runtime/command.py` apart. `end` is the letter of how it ended, empty before."""

    def __init__(self, hear: Hear) -> None:
        self.status: int | None = None
        self.end = b""
        self._hear = hear
        self._rest = bytearray()

    def take(self, part: bytes) -> None:
        """Pass on what is whole by now."""
        self._rest += part
        while (line := self._rest.find(b"\n")) > 0:
            kind, size = bytes(self._rest[:1]), int(self._rest[1:line])
            if len(self._rest) < line + 1 + size:
                return
            data = bytes(self._rest[line + 1 : line + 1 + size])
            del self._rest[: line + 1 + size]
            self._frame(kind, data)

    def _frame(self, kind: bytes, data: bytes) -> None:
        if kind in (b"o", b"e"):
            self._hear(Stream(kind.decode()), data)
            return
        self.end = kind
        if kind == b"x":
            self.status = int(data)


def stop(site: Site, command: Command) -> None:
    """End a command and all that it started; RemoteError where something of it is left."""
    answer = killed(site.answer("command", "stop", site.layout.root, command.token, timeout=STOP_S))
    if answer.message:
        raise RemoteError(f"the command did not end: {answer.message}", node=site.name, stage="exec")


def fetch(site: Site, path: str, take: Take) -> tuple[str, ...]:
    """Send a file or folder to `take` as a tar stream; return what was left out, and why."""
    ended = site.program("archive", site.layout.root, path, timeout=AS_LONG_AS_IT_TAKES, take=take)
    said = tuple(ended.stderr.decode(errors="replace").strip().splitlines())
    if ended.status == 0:
        return said
    message = said[-1] if said else f"it ended with {ended.status}"
    if ended.status == NO_SUCH_FILE:
        raise RemoteError(message, node=site.name, stage="fetch")
    raise RemoteError(f"`{path}` cannot be sent: {message}", node=site.name, stage="fetch", tail=said[-20:])


def visit(site: Site, member: MemberName | None) -> tuple[str, ...]:
    """Return the program that opens a terminal beside a rank."""
    shell: Sequence[str] = (site.python, "-EsS", site.layout.package, "visit", site.layout.root, label(member))
    return site.shell.terminal(site.access, shell)
