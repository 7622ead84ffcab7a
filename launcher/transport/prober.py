"""The `Prober` port over a shell: one round trip a machine.

Nothing of it stays there.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from queue import Empty, SimpleQueue
from typing import TypeAlias

from launcher.core.model.inventory import Node
from launcher.core.model.nodeset import NodeName
from launcher.errors import RemoteError
from launcher.ports import LearntKey, Listener, Shell
from launcher.probe import node_facts
from launcher.probe.needs import NOTHING, TaskNeeds
from launcher.probe.node_facts import Facts
from launcher.probe.results import MARK, Unknown
from launcher.transport.ssh.operation import NoJobError

FAN_OUT = 256
"""Machines asked at once. Each of them costs a sleeping thread; how many connections are made at once is up to the
shell."""

WAY_S = 8.0
"""Seconds for the way to a machine, besides those for its answer."""

_Told: TypeAlias = tuple[Sequence[Node], Facts | Unknown | Exception]


class ShellProber:
    """Asks machines by running one script.

    `leases` are the paths of a machine's lease; `shared` says that all nodes are on one machine, which is asked once.
    `take_learnt` returns the host keys that were learnt meanwhile.
    """

    def __init__(
        self,
        shell: Shell,
        leases: Sequence[str] = (),
        *,
        shared: bool = False,
        take_learnt: Callable[[], Sequence[LearntKey]] = tuple,
    ) -> None:
        self._shell = shell
        self._leases = leases
        self._shared = shared
        self._take_learnt = take_learnt
        self._script = resources.files("launcher.runtime").joinpath("facts.py").read_bytes()

    def probe(
        self, nodes: Sequence[Node], listener: Listener, needs: TaskNeeds = NOTHING
    ) -> Mapping[NodeName, Facts | Unknown]:
        """Return what is known of each node, all asked at once."""
        listener.asking([node.name for node in nodes])
        machines = list(self._machines(nodes))
        told: SimpleQueue[_Told] = SimpleQueue()
        self._ask_all(machines, needs, told)
        answers: dict[NodeName, Facts | Unknown] = {}
        for _ in machines:
            part, found = told.get()
            if isinstance(found, Exception):
                raise found
            for node in part:
                answers[node.name] = found
                listener.heard(node.name, answered=not isinstance(found, Unknown))
        if keys := self._take_learnt():
            listener.learnt(keys)
        return answers

    def close(self) -> None:
        """Let go of connections."""
        self._shell.close()

    def _ask_all(self, machines: Sequence[Sequence[Node]], needs: TaskNeeds, told: "SimpleQueue[_Told]") -> None:
        """Ask all machines, in threads that nobody waits for.

        Ctrl-C need not wait for a machine that hangs.
        """
        waiting: SimpleQueue[Sequence[Node]] = SimpleQueue()
        for part in machines:
            waiting.put(part)

        def work() -> None:
            with contextlib.suppress(Empty):
                while True:
                    part = waiting.get_nowait()
                    try:
                        told.put((part, self._ask(part[0], needs)))
                    except Exception as error:  # noqa: BLE001  it is raised where the answer is waited for
                        told.put((part, error))

        for _ in machines[:FAN_OUT]:
            threading.Thread(target=work, name="probe", daemon=True).start()

    def _machines(self, nodes: Sequence[Node]) -> Iterator[Sequence[Node]]:
        """Return groups of nodes that one question is enough for.

        Nodes of a shared machine may differ in their Python.
        """
        if not self._shared:
            yield from ((node,) for node in nodes)
            return
        for python in dict.fromkeys(node.access.python for node in nodes):
            yield [node for node in nodes if node.access.python == python]

    def _ask(self, node: Node, needs: TaskNeeds) -> Facts | Unknown:
        call = node_facts.call(self._script, node, needs=needs, leases=self._leases)
        asked = time.time()
        try:
            ended = self._shell.run(node.access, call.argv, stdin=call.stdin, timeout=call.timeout + WAY_S)
        except RemoteError as error:
            return Unknown(why=error.advice, unreachable=True, no_job=isinstance(error, NoJobError))
        if ended.status == node_facts.NO_PYTHON and MARK not in ended.stdout:
            return node_facts.no_python(node)
        said = ended.stdout if MARK in ended.stdout else ended.stdout + ended.stderr
        return node_facts.read_facts(said, node, now=time.time(), asked=asked, needs=needs)
