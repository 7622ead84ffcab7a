"""Carry out actions through the `Nodes` port, many at a time, and collect what came of them."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor as Pool
from concurrent.futures import Future, ThreadPoolExecutor

from typing_extensions import assert_never

from launcher.core.model.action_key import ActionKey, key_of
from launcher.core.model.actions import (
    Acquire,
    Action,
    AddSpare,
    Answer,
    Join,
    Kill,
    PowerOff,
    Prepare,
    Release,
    Relocate,
    Reserve,
    Resize,
    Result,
    Signal,
    Start,
    StartHead,
    Unreserve,
    Verify,
)
from launcher.core.model.run import Run
from launcher.ports import Allotter, Nodes

# Actions on different nodes at once; each is bounded by its own deadline.
FAN_OUT = 64


class Fixed:
    """The allotter of a run that keeps the nodes it has, because nobody is there to give others."""

    def add_spare(self, run: Run, action: AddSpare) -> Answer:
        """Return that there is none."""
        del run
        return Answer(result=Result.FAILED, stage="allot", message=f"no other node is given to `{action.slice}`")

    def relocate(self, run: Run, action: Relocate) -> Answer:
        """Return that there is no other place."""
        del run
        return Answer(result=Result.FAILED, stage="allot", message=f"no other place is given to `{action.slice}`")

    def resize(self, run: Run, action: Resize) -> Answer:
        """Return that it stays as it is."""
        del run, action
        return Answer(result=Result.FAILED, stage="allot", message="nobody gives it other slices")


def execute(run: Run, nodes: Nodes, action: Action, allotter: Allotter | None = None) -> Answer:
    """Return what came of one action: the one place where an action becomes a call of a port."""
    allotter = allotter or Fixed()
    match action:
        case Acquire():
            return nodes.claim(run, action)
        case Prepare():
            return nodes.prepare(run, action)
        case StartHead():
            return nodes.start_head(run, action)
        case Join():
            return nodes.join(run, action)
        case Reserve():
            return nodes.reserve(run, action)
        case Unreserve():
            return nodes.unreserve(run, action)
        case Verify():
            return nodes.verify(run, action)
        case Start():
            return nodes.start(run, action)
        case Signal():
            return nodes.signal(run, action)
        case Kill():
            return nodes.kill(run, action)
        case Release():
            return nodes.release(run, action)
        case PowerOff():
            return nodes.power_off(run, action)
        case AddSpare():
            return allotter.add_spare(run, action)
        case Relocate():
            return allotter.relocate(run, action)
        case Resize():
            return allotter.resize(run, action)
        case _:
            assert_never(action)


class Inline(Pool):
    """A pool that does each thing at once, in the calling thread: an imaginary fleet needs no other."""

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        """Return a future that is already done."""
        future: Future[Answer] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  it is whoever collects the answer that is to hear of it
            future.set_exception(error)
        return future


class Executor:
    """Actions under way. A slow one holds up neither the others nor the loop."""

    def __init__(self, nodes: Nodes, pool: Pool | None = None, allotter: Allotter | None = None) -> None:
        self._nodes = nodes
        self._allotter = allotter
        self._pool = pool or ThreadPoolExecutor(FAN_OUT, thread_name_prefix="act")
        self._under_way: dict[ActionKey, Action] = {}
        self._done: deque[tuple[Action, Future[Answer]]] = deque()

    @property
    def in_flight(self) -> frozenset[ActionKey]:
        """Return the keys of the actions that were begun and not yet collected."""
        return frozenset(self._under_way)

    def begin(self, run: Run, action: Action) -> None:
        """Begin an action."""
        self._under_way[key_of(action)] = action
        future = self._pool.submit(execute, run, self._nodes, action, self._allotter)
        future.add_done_callback(lambda done: self._done.append((action, done)))

    def pending(self) -> bool:
        """Whether something came back that was not collected."""
        return bool(self._done)

    def collect(self, keep: Callable[[Action, Answer], object]) -> None:
        """Hand every action that ended, with its answer, to `keep`; then it is under way no more.

        An answer that `keep` could not keep is handed to it again. An action that raised has none: it is under way no
        more, and the error goes on to the caller.
        """
        while self._done:
            action, future = self._done[0]
            error = future.exception()
            if error is None:
                keep(action, future.result())
            self._done.popleft()
            del self._under_way[key_of(action)]
            if error is not None:
                raise error

    def close(self) -> None:
        """Begin nothing more; what is under way ends by its own deadline, unheard."""
        self._pool.shutdown(wait=False, cancel_futures=True)
