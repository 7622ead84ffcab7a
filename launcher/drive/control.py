"""The controller of a run: a process that owns the run and drives its loop."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from launcher.admission.queue.wait import await_turn
from launcher.admission.reallocate import StoreAllotter
from launcher.admission.store_retry import ControllerLog, Say, StoreRetry
from launcher.core.model.run import Run, RunId, RunState
from launcher.drive.adapters import open_checker, open_clock, open_nodes, open_prober
from launcher.drive.check_service import CHECKS_STOP_S, CheckService
from launcher.drive.execute import Executor, Inline
from launcher.drive.hooks import Hook
from launcher.drive.loop import Loop
from launcher.drive.successors import start_due
from launcher.errors import LaunchError, StoreError
from launcher.store.owner import Owner
from launcher.store.store import Store
from launcher.transport.clock import SystemClock

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def control(home: Path, run_id: RunId) -> RunState:
    """Own a run and drive it until it has ended.

    ConflictError where a live process owns it.

    Drives the successors of a preempted run too, and starts the controllers of runs that come after it. SIGTERM and
    SIGINT stop the controller, never the run. A failing store is retried; StoreError where a stop was requested
    meanwhile.
    """
    log = ControllerLog()
    retry = StoreRetry(log)
    with stoppable() as stopped:
        store = retry.call(lambda: Store(home), stopped)
        while True:
            retry.call(partial(store.owners.take, run_id, Owner.current()), stopped)
            with _returning(store, run_id, log):
                state = drive(store, run_id, stopped, log)
            if stopped():
                return state
            successor = retry.call(partial(store.chains.after, run_id), stopped)
            if successor is None:
                start_due(store, log)
                return state
            run_id = successor


def drive(store: Store, run_id: RunId, stopped: Callable[[], bool], say: Say) -> RunState:
    """Drive a run that this process owns, until it has ended or `stopped()`.

    Runs its hook, and gives the run up at the end.

    A failing store is reported to `say` and retried; StoreError where `stopped()` came before it could be read.
    """
    retry = StoreRetry(say)
    try:
        run, _ = retry.call(lambda: store.load(run_id), stopped)
        with _hooked(store, run) as hook:
            state = retry.call(lambda: _wait_and_drive(store, run_id, stopped, retry), stopped)
            hook.patient = state.final
            return state
    finally:
        try:
            store.owners.release(run_id)
        except StoreError as error:  # a run whose owner is dead or does not drive it can be taken by another
            retry.report(error)


@contextmanager
def _returning(store: Store, run_id: RunId, say: Say) -> Iterator[None]:
    """Check quarantined nodes before their return during this block, where the run's inventory asks for it.

    A run may wait for such a node, and there may be no service.
    """
    try:
        wanted = store.load(run_id)[0].fleet.checks.before_return is not None
    except LaunchError:  # `drive` reports it
        wanted = False
    if not wanted:
        yield
        return
    service = CheckService(store.home, say, returns_only=True)
    service.begin()
    try:
        yield
    finally:
        service.end(CHECKS_STOP_S)


@contextmanager
def _hooked(store: Store, run: Run) -> Iterator[Hook]:
    """Run the hook of a run, where it has one, during this block.

    The hook ends before another process can own the run, which would report the same events again.
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


def _wait_and_drive(store: Store, run_id: RunId, stopped: Callable[[], bool], retry: StoreRetry) -> RunState:
    open_facts = partial(open_prober, store.home)
    run, _ = store.load(run_id)
    if not run.placement.slices:  # queued, or ended while it was queued
        state = await_turn(store, run.id, SystemClock(), open_facts, stopped, retry, partial(open_checker, store.home))
        if state is not RunState.STARTING:
            return state
        run, _ = store.load(run.id)  # with its nodes
    nodes = open_nodes(store.home, run.fleet)
    pool = Inline() if run.fleet.capabilities.imaginary else None
    executor = Executor(nodes, pool, StoreAllotter(store, open_facts))
    try:
        return Loop(store, nodes, open_clock(store, run), executor, run.id, retry).drive(stopped)
    finally:
        executor.close()
        nodes.close()


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Return, during this block, whether SIGTERM or SIGINT asked the process to stop.

    The runs go on.
    """
    stop: list[int] = []
    before = {number: signal.signal(number, lambda got, _: stop.append(got)) for number in _STOP_SIGNALS}
    try:
        yield lambda: bool(stop)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
