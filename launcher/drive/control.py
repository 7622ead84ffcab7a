"""The controller of a run: one process that owns its loop."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from launcher.admission.queue_wait import await_turn
from launcher.admission.reallocate import StoreAllotter
from launcher.admission.store_retry import Log, Say, Trouble
from launcher.core.model.inventory import Inventory, Transport
from launcher.core.model.run import Run, RunId, RunState
from launcher.core.model.simulation import SimSettings
from launcher.drive.execute import Executor, Inline
from launcher.drive.hooks import Hook
from launcher.drive.loop import Loop
from launcher.errors import LaunchError, StoreError
from launcher.ports import Clock, Nodes, Prober
from launcher.store.owner import Owner
from launcher.store.store import Store
from launcher.transport.clock import SystemClock

# The controllers that this process started: the finaliser of a Popen is Python, and would swallow a Ctrl-C.
_children: "list[subprocess.Popen[bytes]]" = []
# How long a new controller may take until it owns its run (s); an import on a cold disk is what takes time.
OWN_DEADLINE = 30.0


def open_nodes(home: Path, fleet: Inventory) -> Nodes:
    """Return the way to the nodes of a fleet.

    Imported where it is needed, here and below: what the one kind of fleet does without costs its launch no time.
    """
    if fleet.transport is Transport.SIM:
        from launcher.sim.nodes import SimNodes

        return SimNodes(Store(home))
    from launcher.transport.open import open_nodes as really

    return really(home, fleet)


def open_prober(home: Path, fleet: Inventory) -> Prober:
    """Return the way to the facts of the nodes of a fleet."""
    if fleet.transport is Transport.SIM:
        from launcher.sim.prober import SimProber

        return SimProber(fleet.sim or SimSettings())
    from launcher.transport.open import open_prober as really

    return really(home, fleet)


def control(home: Path, run_id: RunId) -> RunState:
    """Own a run and drive it until it is over; LeaseHeldError where a live process owns it.

    One whose nodes others took is driven on as the run that waits in its place. SIGTERM and SIGINT end the driving,
    never the run. A store that fails is waited for; StoreError where it was asked to stop meanwhile.
    """
    log = Log()
    trouble = Trouble(log)
    with stoppable() as stopped:
        store = trouble.overcome(lambda: Store(home), stopped)
        while True:
            trouble.overcome(partial(store.own, run_id, Owner.current()), stopped)
            state = drive(store, run_id, stopped, log)
            if stopped():
                return state
            after = trouble.overcome(partial(store.queue.after, run_id), stopped)
            if after is None:
                return state
            run_id = after


def drive(store: Store, run_id: RunId, stopped: Callable[[], bool], say: Say) -> RunState:
    """Drive a run that this process owns until it is over or `stopped()`, tell its hook, and let go of it.

    `say` is told of a store that fails, which is waited for; StoreError where `stopped()` came before it could be read.
    """
    trouble = Trouble(say)
    try:
        run, _ = trouble.overcome(lambda: store.load(run_id), stopped)
        with _telling(store, run) as hook:
            state = trouble.overcome(lambda: _wait_and_drive(store, run_id, stopped, trouble), stopped)
            hook.patient = state.final
            return state
    finally:
        try:
            store.disown(run_id)
        except StoreError as error:  # what a process owned that is gone, or drives the run no more, is free to take
            trouble.tell(error)


@contextmanager
def _telling(store: Store, run: Run) -> Iterator[Hook]:
    """Tell the hook of a run, where it has one, in this block.

    It ends before another process may own the run, which would tell the same events again.
    """
    hook = Hook(store, run)
    if not run.task.on_event:
        yield hook
        return
    hook.begin()
    try:
        yield hook
    finally:
        hook.end()


def _wait_and_drive(store: Store, run_id: RunId, stopped: Callable[[], bool], trouble: Trouble) -> RunState:
    home = store.home
    run, _ = store.load(run_id)
    if not run.placement.slices:  # also one that was being taken down while it waited
        state = await_turn(store, run.id, SystemClock(), lambda fleet: open_prober(home, fleet), stopped, trouble)
        if state is not RunState.STARTING:
            return state
        run, _ = store.load(run.id)  # with its nodes
    nodes = open_nodes(home, run.fleet)
    clock = _clock(store, run)
    allotter = StoreAllotter(store, lambda fleet: open_prober(home, fleet))
    executor = Executor(nodes, Inline() if run.fleet.transport is Transport.SIM else None, allotter)
    try:
        return Loop(store, nodes, clock, executor, run.id, trouble).drive(stopped)
    finally:
        executor.close()
        nodes.close()


def _clock(store: Store, run: Run) -> Clock:
    if run.fleet.transport is Transport.SIM:
        from launcher.sim.clock import SimClock

        return SimClock(store, run)
    return SystemClock()


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Return in this block whether SIGTERM or SIGINT asked this process to stop driving; the runs go on."""
    stop: list[int] = []
    before = {number: signal.signal(number, lambda got, _: stop.append(got)) for number in _STOPPERS}
    try:
        yield lambda: bool(stop)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_STOPPERS = (signal.SIGTERM, signal.SIGINT)


def spawn(home: Path, run_id: RunId) -> None:
    """Start a detached controller for a run and return when a live process owns it.

    The child has no terminal, no secrets of the task in its environment, and a log in the folder of the run.
    Raises LaunchError with the end of that log where it ends before it owns the run.
    """
    store = Store(home)
    run, _ = store.load(run_id)
    folder = home / "runs" / run_id
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = folder / "controller.log"
    environ = {name: value for name, value in os.environ.items() if name not in run.task.secrets}
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "launcher.drive", str(home), run_id],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environ,
            cwd="/",
            start_new_session=True,
        )
    _children.append(child)
    deadline = time.monotonic() + OWN_DEADLINE
    while time.monotonic() < deadline:
        row = store.find(run_id)
        if row.ended is not None or (row.owner and row.owner.alive()):
            return
        if child.poll() is not None:
            break
        SystemClock().wait(SystemClock().now() + 0.02, lambda: False)
    tail = log.read_text(errors="replace").splitlines()[-5:]
    raise LaunchError(
        f"the controller of `{run_id}` did not start: {tail[-1] if tail else 'it said nothing'}",
        hints=(f"its log is {log}", f"`nvlaunch watch {run.name}` tries again, `nvlaunch down {run.name}` cleans up"),
    )
