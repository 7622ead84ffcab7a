"""The `Prober` port over a shell: one round trip a machine, and nothing of it stays there."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib import resources

from launcher.core.fleet import Node, NodeName
from launcher.errors import RemoteError
from launcher.ports import Listener, Shell
from launcher.probe import collect
from launcher.probe.answer import MARK, Unknown
from launcher.probe.collect import Facts

FAN_OUT = 256
"""Machines asked at once. Each of them costs a sleeping thread; how many connections are made at once is up to the
shell."""

WAY_S = 8.0
"""Seconds for the way to a machine, besides those for its answer."""


class ShellProber:
    """Asks machines by running one script; `shared` says that all nodes are on one machine, which is asked once."""

    def __init__(self, shell: Shell, *, shared: bool = False) -> None:
        self._shell = shell
        self._shared = shared
        self._script = resources.files("launcher.runtime").joinpath("facts.py").read_bytes()

    def probe(self, nodes: Sequence[Node], listener: Listener) -> Mapping[NodeName, Facts | Unknown]:
        """Answer what is known of each node, all asked at once."""
        listener.asking([node.name for node in nodes])
        answers: dict[NodeName, Facts | Unknown] = {}
        pool = ThreadPoolExecutor(max_workers=FAN_OUT, thread_name_prefix="probe")
        try:
            asked = {pool.submit(self._ask, part[0]): part for part in self._machines(nodes)}
            for done in as_completed(asked):
                found = done.result()
                for node in asked[done]:
                    answers[node.name] = found
                    listener.heard(node.name, answered=not isinstance(found, Unknown))
        finally:
            # After Ctrl-C nobody waits for machines that hang: their threads end when the shell is closed.
            pool.shutdown(wait=False, cancel_futures=True)
        return answers

    def close(self) -> None:
        """Let go of connections."""
        self._shell.close()

    def _machines(self, nodes: Sequence[Node]) -> Iterator[Sequence[Node]]:
        """Answer the nodes that one question is enough for; those of a shared machine may differ in their Python."""
        if not self._shared:
            yield from ((node,) for node in nodes)
            return
        for python in dict.fromkeys(node.access.python for node in nodes):
            yield [node for node in nodes if node.access.python == python]

    def _ask(self, node: Node) -> Facts | Unknown:
        call = collect.call(self._script, node)
        asked = time.time()
        try:
            ended = self._shell.run(node.access, call.argv, stdin=call.stdin, timeout=call.timeout + WAY_S)
        except RemoteError as error:
            return Unknown(why="; ".join((error.message, *error.hints)), unreachable=True)
        if ended.status == collect.NO_PYTHON and MARK not in ended.stdout:
            return collect.no_python(node)
        said = ended.stdout if MARK in ended.stdout else ended.stdout + ended.stderr
        return collect.read(said, node, now=time.time(), asked=asked)
