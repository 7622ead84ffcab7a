"""The client of one agent.

It knows how the machine is reached, where its folders are, and how the agent is asked.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from launcher.core.model.actions import Unit
from launcher.core.model.inventory import Access
from launcher.errors import RemoteError
from launcher.ports import Completed, Shell, Stdin, Take
from launcher.runtime.protocol import PROTOCOL, AgentRequest, Reply, TablesReply, mismatch
from launcher.setup.layout import Layout
from launcher.setup.ports import Blocks
from launcher.transport.agent import relay, replies
from launcher.transport.bounded import last_lines
from launcher.transport.upload import bundle
from launcher.transport.upload.bundle import Files

LARGEST = 32_000
"""Bytes of a request that an open connection takes without delaying others."""

LEAST_S = 1.0
"""Seconds that are left to ask once more where an open connection was lost late."""

OTHER_VERSION = "drive the run with the version of nvlaunch that started it; `nvlaunch down` works with this one too"


class OpenConnections(Protocol):
    """Connections to machines that are open anyway, for requests to agents."""

    def ask(self, client: "AgentClient", request: Mapping[str, Any], timeout: float) -> Reply | None:
        """Return an agent's reply.

        None where no connection to its machine is open, or it is lost meanwhile.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentClient:
    """An agent of a run, by its unit and machine.

    `name` is for people; `shared` says that the machine has other nodes of the inventory too. Of each `topic` one look
    may be under way.
    """

    name: str
    unit: Unit
    shell: Shell
    access: Access
    layout: Layout
    blocks: Blocks
    leases: tuple[str, ...]
    shared: bool
    python: str
    connections: OpenConnections | None = None
    topic: str = ""

    def ask(self, request: AgentRequest, *, timeout: float) -> Reply:
        """Return the agent's reply, or that of its machine where there is no agent.

        RemoteError where there is none, or the agent is of another version. Sent over a connection that is open anyway,
        if there is one: a program for each request costs a node more than the reply. It may be sent twice.
        """
        begun, sent, op = time.monotonic(), with_protocol(request), request["op"]
        text = json.dumps(sent).encode()
        small = self.connections is not None and len(text) <= LARGEST
        reply = self.connections.ask(self, sent, timeout) if self.connections is not None and small else None
        if reply is None:
            left = max(LEAST_S, timeout - (time.monotonic() - begun))
            argv = [
                *(self.python, "-EsS", "-c", relay.ONE),
                *(self.layout.socket, self.layout.package, self.layout.root, str(left)),
            ]
            return self._checked(self._value(self.shell.run(self.access, argv, stdin=text, timeout=left + 2), op), op)
        return self._checked(reply, op)

    @property
    def machine(self) -> Access | None:
        """Return what tells machines apart.

        None for the one that all nodes of a local inventory share.
        """
        return None if self.shared else self.access

    def program(self, *argv: str, timeout: float, stdin: Stdin = b"", take: Take | None = None) -> Completed:
        """Run a program of `launcher/runtime` on the node.

        `take` is given its stdout as it comes.
        """
        command = [self.python, "-EsS", self.layout.package, *argv]
        return self.shell.run(self.access, command, stdin=stdin, timeout=timeout, take=take)

    def answer(self, *argv: str, timeout: float, stdin: Stdin = b"") -> Reply:
        """Run a program of `launcher/runtime` that prints a reply.

        Its exit status does not matter.
        """
        return self._json(self.program(*argv, timeout=timeout, stdin=stdin), argv[0])

    def from_memory(self, *argv: str, timeout: float, stdin: bytes = b"") -> Reply:
        """Run a program of `launcher/runtime` that prints a reply; no file is needed on the node for it."""
        command = [self.python, "-EsS", "-c", relay.FROM_MEMORY, *argv]
        sent = relay.from_memory(bundle.archive(), stdin)
        return self._json(self.shell.run(self.access, command, stdin=sent, timeout=timeout), argv[0])

    def ask_open(self, request: AgentRequest, *, timeout: float) -> Reply | None:
        """Return the reply over a connection that is open anyway; None without one, or where it is lost meanwhile.

        Nothing is started on the machine for it. RemoteError where no reply comes in time.
        """
        return self.connections.ask(self, with_protocol(request), timeout) if self.connections else None

    def put(self, files: Files) -> None:
        """Write files below the run's folder on the node."""
        self.shell.put(self.access, self.layout.root, files, timeout=30)

    def _value(self, ended: Completed, stage: str) -> object:
        """Return what a program printed; where that is no reply, stderr has the message."""
        tail = last_lines(ended.stderr)
        try:
            return replies.parse(ended.stdout)
        except replies.OddReplyError as error:
            message = f"odd reply: {error}" if ended.stdout.strip() else f"`{stage}` ended with {ended.status}"
            raise RemoteError(tail[-1] if tail else message, node=self.name, stage=stage, tail=tail) from None

    def _json(self, ended: Completed, stage: str) -> Reply:
        return self._read(self._value(ended, stage), stage)

    def _read(self, value: object, stage: str) -> Reply:
        try:
            return replies.read(TablesReply if stage == "supervisor" else Reply, value)
        except replies.OddReplyError as error:
            raise RemoteError(f"odd reply: {error}", node=self.name, stage=stage) from None

    def _checked(self, value: object, stage: str) -> Reply:
        reply = self._read(value, stage)
        if wrong := mismatch(reply.get("protocol", PROTOCOL)):
            raise RemoteError(f"agent of `{self.name}`: {wrong}", node=self.name, stage=stage, hints=(OTHER_VERSION,))
        return reply


def with_protocol(request: Mapping[str, object]) -> dict[str, Any]:
    """Return a request as it is sent: with the protocol."""
    return {**request, "protocol": PROTOCOL}
