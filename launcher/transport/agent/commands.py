"""What people do on a node of a run.

They run commands beside a rank, copy files back, and open a shell at a terminal.
"""

import json
import re
from collections.abc import Sequence

from launcher.core.model.inventory import Node
from launcher.core.model.run import MemberName
from launcher.errors import LaunchError, RemoteError
from launcher.ports import Command, Hear, Stream, Take
from launcher.runtime.protocol_files import CommandRequest
from launcher.setup.environ import RunEnvironment
from launcher.transport.agent.answers import killed
from launcher.transport.agent.client import AgentClient
from launcher.transport.bounded import MOST_LINES, last_lines

AS_LONG_AS_IT_TAKES = 14 * 24 * 3600.0
"""Seconds: in effect no limit; a dead connection is noticed earlier."""

BEYOND_S = 15.0
"""Seconds beyond a command's own time in which the node ends it and says so."""

STOP_S = 30.0
NO_SUCH_FILE = 3
MAX_FRAME = 1 << 20
"""Bytes of a frame; `runtime/command.py` sends 64 KiB at most."""
_HEAD = re.compile(rb"([oextg])([0-9]{1,7})\n")
_LONGEST_HEAD = 10
_STATUS = re.compile(rb"[0-9]{1,3}")
_ENDS = {b"t": "the command was ended after its time", b"g": "the agent is no longer running"}
_UNKNOWN = "the node has no programs of this run, or they are broken"


def label(member: MemberName | None) -> str:
    """Return the name of a rank's folder; `-` for none."""
    return member.replace("/", "-") if member else "-"


def execute(client: AgentClient, environment: RunEnvironment, node: Node, command: Command, hear: Hear) -> int:
    """Run a command to its end and return its exit status.

    RemoteError says why it has none.
    """
    member = environment.index.by_name.get(command.member) if command.member else None
    given = environment.at_first.whole(environment.setup(node, member)) if member else dict(node.env)
    request: CommandRequest = {
        "token": command.token,
        "argv": list(command.argv),
        "label": label(command.member).strip("-"),
        "env": given,
        "timeout": command.timeout,
    }
    frames = Frames(hear)
    limit = min(AS_LONG_AS_IT_TAKES, (command.timeout or AS_LONG_AS_IT_TAKES) + BEYOND_S)
    stdin = json.dumps(request).encode()
    ended = client.program("command", "run", client.layout.root, timeout=limit, stdin=stdin, take=frames.take)
    if frames.status is not None:
        return frames.status
    tail = last_lines(ended.stderr)
    raise RemoteError(_ENDS.get(frames.end, _UNKNOWN), node=node.name, stage="exec", tail=tail)


class Frames:
    """Takes the stream of `runtime/command.py` apart.

    `end` is the letter of its last frame, empty before. LaunchError where something else comes, which ends the command.
    """

    def __init__(self, hear: Hear) -> None:
        self.status: int | None = None
        self.end = b""
        self._hear = hear
        self._rest = bytearray()

    def take(self, part: bytes) -> None:
        """Pass on the frames that are complete; nothing counts after the last one."""
        self._rest += part
        while not self.end and self._rest:
            head = _HEAD.match(self._rest)
            if head is None:
                if len(self._rest) > _LONGEST_HEAD or b"\n" in self._rest:
                    raise _no_frame(self._rest)
                return
            kind, size, begin = head[1], int(head[2]), head.end()
            if size > MAX_FRAME:
                raise _no_frame(self._rest)
            if len(self._rest) < begin + size:
                return
            data = bytes(self._rest[begin : begin + size])
            del self._rest[: begin + size]
            self._frame(kind, data)
        if self.end:
            self._rest.clear()

    def _frame(self, kind: bytes, data: bytes) -> None:
        if kind in (b"o", b"e"):
            self._hear(Stream(kind.decode()), data)
            return
        if kind == b"x":
            if not _STATUS.fullmatch(data):
                raise _no_frame(data)
            self.status = int(data)
        self.end = kind


def _no_frame(data: bytes | bytearray) -> LaunchError:
    return LaunchError(f"the node sent what is no part of a command's output: {bytes(data[:20])!r}")


def stop(client: AgentClient, command: Command) -> None:
    """End a command and all that it started.

    RemoteError where a process of it is left.
    """
    answer = killed(client.answer("command", "stop", client.layout.root, command.token, timeout=STOP_S))
    if answer.message:
        raise RemoteError(f"the command did not end: {answer.message}", node=client.name, stage="exec")


def fetch(client: AgentClient, path: str, take: Take) -> tuple[str, ...]:
    """Send a file or folder to `take` as a tar stream.

    Return what was left out, and why.
    """
    ended = client.program("archive", client.layout.root, path, timeout=AS_LONG_AS_IT_TAKES, take=take)
    lines = last_lines(ended.stderr, MOST_LINES)
    if ended.status == 0:
        return lines
    message = lines[-1] if lines else f"exit status {ended.status}"
    if ended.status == NO_SUCH_FILE:
        raise RemoteError(message, node=client.name, stage="fetch")
    raise RemoteError(f"cannot copy `{path}`: {message}", node=client.name, stage="fetch", tail=lines[-20:])


def visit(client: AgentClient, member: MemberName | None) -> tuple[str, ...]:
    """Return the program that opens a terminal beside a rank."""
    shell: Sequence[str] = (client.python, "-EsS", client.layout.package, "visit", client.layout.root, label(member))
    return client.shell.terminal(client.access, shell)
