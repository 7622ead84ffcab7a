"""One unit of a run on a machine: how it is reached, where its folders are, and how its agent is spoken to."""

import json
import time
from dataclasses import dataclass
from typing import Any, Protocol

from launcher.core.model.actions import Unit
from launcher.core.model.inventory import Access
from launcher.errors import RemoteError
from launcher.ports import Completed, Shell, Stdin, Take
from launcher.setup.layout import Layout
from launcher.setup.ports import Blocks
from launcher.transport.agent import relay
from launcher.transport.upload.bundle import Files

Json = dict[str, Any]

LARGEST = 32_000
"""Bytes of a question that a kept connection takes without making others wait."""


LEAST_S = 1.0
"""Seconds that are left to ask once more when a kept connection was lost late."""


class Kept(Protocol):
    """Connections to machines that are kept open, for questions to agents."""

    def ask(self, site: "Site", question: Json, timeout: float) -> Json | None:
        """Return what the agent of a unit says; None where no connection is open, or it is lost meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A unit of a run on a machine. `name` is for people; `shared` says that other nodes are on the same machine."""

    name: str
    unit: Unit
    shell: Shell
    access: Access
    layout: Layout
    blocks: Blocks
    leases: tuple[str, ...]
    shared: bool
    python: str
    kept: Kept | None = None

    def ask(self, question: Json, *, timeout: float) -> Json:
        """Return what the agent says, or what the machine says in its place; RemoteError where nobody does.

        Over a connection that is open anyway: a program for each question costs a node more than the answer. What is
        asked may be asked twice.
        """
        begun, text = time.monotonic(), json.dumps(question).encode()
        told = self.kept.ask(self, question, timeout) if self.kept is not None and len(text) <= LARGEST else None
        if told is not None:
            return told
        left = max(LEAST_S, timeout - (time.monotonic() - begun))
        argv = [
            *(self.python, "-EsS", "-c", relay.ONE),
            *(self.layout.socket, self.layout.package, self.layout.root, str(left)),
        ]
        return self._json(self.shell.run(self.access, argv, stdin=text, timeout=left + 2), question["op"])

    @property
    def machine(self) -> Access | None:
        """Return what tells machines apart; None: the one that all sites of a local inventory share."""
        return None if self.shared else self.access

    def program(self, *argv: str, timeout: float, stdin: Stdin = b"", take: Take | None = None) -> Completed:
        """Run one of our programs on the node; `take` is given its stdout as it comes."""
        command = [self.python, "-EsS", self.layout.package, *argv]
        return self.shell.run(self.access, command, stdin=stdin, timeout=timeout, take=take)

    def answer(self, *argv: str, timeout: float, stdin: Stdin = b"") -> Json:
        """Run one of our programs that answers in JSON, whatever its exit status."""
        return self._json(self.program(*argv, timeout=timeout, stdin=stdin), argv[0])

    def put(self, files: Files) -> None:
        """Write files below the run's folder on the node."""
        self.shell.put(self.access, self.layout.root, files, timeout=30)

    def _json(self, ended: Completed, stage: str) -> Json:
        try:
            answer = json.loads(ended.stdout)
            if isinstance(answer, dict):
                return answer
        except ValueError:
            pass  # what it wrote to stderr instead is the message
        tail = tuple(ended.stderr.decode(errors="replace").strip().splitlines()[-20:])
        message = tail[-1] if tail else f"`{stage}` ended with {ended.status} and said nothing"
        raise RemoteError(message, node=self.name, stage=stage, tail=tail)
