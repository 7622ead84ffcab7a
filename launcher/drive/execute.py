"""Carry out actions through the ports, many at a time, and collect their answers."""

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor as Pool
from concurrent.futures import Future
from functools import partial
from typing import Protocol

from launcher.core.model.action_key import ActionKey, key_of
from launcher.core.model.actions import Action, AddSpare, AllotAction, Grow, Move, Relocate, Resize, ReturnSpare
from launcher.core.model.inventory import Inventory, RackName
from launcher.core.model.nodeset import NodeName
from launcher.core.model.receipt import Answer, Result
from launcher.core.model.run import Run
from launcher.drive.waves import Waves
from launcher.ports import Allotter, Nodes


class Fixed:
    """The allotter of a run that keeps the nodes it has."""

    def perform(self, run: Run, action: AllotAction) -> Answer:
        """Return that nothing else can be given."""
        del run
        return Answer(result=Result.FAILED, stage="allot", message=f"{action.kind}: this run keeps the nodes it has")

    def room(self, run: Run) -> frozenset[str]:
        """Return that no group can have more slices."""
        del run
        return frozenset()


def execute(run: Run, nodes: Nodes, action: Action, allotter: Allotter) -> Answer:
    """Return the answer to one action; only here an action becomes a call of a port."""
    if isinstance(action, AddSpare | ReturnSpare | Relocate | Move | Resize | Grow):
        return allotter.perform(run, action)
    return nodes.perform(run, action)


class Inline(Pool):
    """A pool that runs everything at once in the calling thread, for imaginary fleets."""

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        """Return a future that is already done."""
        future: Future[Answer] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  raised again by whoever collects the answer
            future.set_exception(error)
        return future


class Lanes(Protocol):
    """Carries out actions, those of one lane in their order."""

    def submit(self, lane: str, act: Callable[[], Answer]) -> Future[Answer]:
        """Return the future of an action."""

    def shutdown(self) -> None:
        """Begin nothing more."""


class OneLane:
    """A pool for which all lanes are one."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def submit(self, lane: str, act: Callable[[], Answer]) -> Future[Answer]:
        """Return the future of an action."""
        del lane
        return self._pool.submit(act)

    def shutdown(self) -> None:
        """Begin nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class Executor:
    """Actions under way; a slow one delays neither the others nor the loop."""

    def __init__(self, nodes: Nodes, pool: Pool | None = None, allotter: Allotter | None = None) -> None:
        self._nodes = nodes
        self._allotter = allotter or Fixed()
        self._lanes: Lanes = Waves() if pool is None else OneLane(pool)
        self._racks: tuple[Inventory | None, Mapping[NodeName, RackName]] = (None, {})
        self._under_way: dict[ActionKey, Action] = {}
        self._done: deque[tuple[Action, Future[Answer]]] = deque()

    @property
    def in_flight(self) -> frozenset[ActionKey]:
        """Return the keys of actions that were begun and not collected."""
        return frozenset(self._under_way)

    def room(self, run: Run) -> frozenset[str]:
        """Return the groups of a run that could have one more slice now."""
        return self._allotter.room(run)

    def begin(self, run: Run, actions: Sequence[Action]) -> None:
        """Begin actions."""
        with self._nodes.together():
            for action in actions:
                key = key_of(action)
                self._under_way[key] = action
                act = partial(execute, run, self._nodes, action, self._allotter)
                future = self._lanes.submit(self._rack(run, key.node), act)
                future.add_done_callback(partial(self._ended, action))

    def _rack(self, run: Run, node: NodeName | None) -> str:
        """Return the rack of a node; empty for what concerns the head, or the run as a whole."""
        if self._racks[0] is not run.fleet:
            self._racks = (run.fleet, {one.name: one.rack for one in run.fleet.nodes})
        return self._racks[1].get(node, "") if node is not None else ""

    def _ended(self, action: Action, future: Future[Answer]) -> None:
        self._done.append((action, future))

    def pending(self) -> bool:
        """Whether an answer came back that was not collected."""
        return bool(self._done)

    def settled(self) -> bool:
        """Whether every action that was begun has an answer: nothing more will come."""
        return len(self._done) == len(self._under_way)

    def collect(self, keep: Callable[[Sequence[tuple[Action, Answer]]], object]) -> None:
        """Give all actions that have ended to `keep`, with their answers.

        They are under way until `keep` has succeeded. The error of an action that raised goes on to the caller.
        """
        known = [self._done[at] for at in range(len(self._done))]  # other threads append: an iterator would fail
        ended = list(itertools.takewhile(lambda one: one[1].exception() is None, known))
        if ended:
            keep([(action, future.result()) for action, future in ended])
        for action, _ in ended:
            self._done.popleft()
            del self._under_way[key_of(action)]
        if self._done and (error := self._done[0][1].exception()) is not None:
            action, _ = self._done.popleft()
            del self._under_way[key_of(action)]
            raise error

    def close(self) -> None:
        """Begin nothing more; actions under way end by their own deadline."""
        self._lanes.shutdown()
