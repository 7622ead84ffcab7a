"""`watch --all`: one process that drives all runs without a controller.

Each run has a loop in its own thread.
"""

import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from launcher.admission.store_retry import Say, StoreRetry
from launcher.core.model.run import RunId
from launcher.drive.check_service import CHECKS_STOP_S, CheckService
from launcher.drive.control import drive
from launcher.drive.defrag_service import DefragService
from launcher.errors import ConflictError, LaunchError, StoreError
from launcher.store.owner import Owner
from launcher.store.store import Store

LOOK_S = 1.0
"""How often to look for runs without a controller (s)."""
AGAIN_S = 30.0
"""How long to wait before a run whose loop failed is driven again (s)."""
DEFRAG_STOP_S = 10.0
"""How long to wait for moves of slices to stop, when the process is asked to stop (s)."""
STOP_S = 30.0
"""How long to wait for the loops when the process is asked to stop (s)."""


class RunService:
    """Drives each run that has no live controller.

    A loop that fails affects no other run.

    `say` takes log lines. With `defrag`, slices are moved where a waiting run is worth it.
    """

    def __init__(self, home: Path, say: Say, *, defrag: bool = False) -> None:
        self._store = Store(home)
        self._defrag = DefragService(home, say) if defrag else None
        self._checks = CheckService(home, say)
        self._say = say
        self._retry = StoreRetry(say)
        self._me = Owner.current()
        self._threads: dict[RunId, threading.Thread] = {}
        self._unreadable: set[str] = set()
        self._not_before: dict[RunId, float] = {}
        self._stop = threading.Event()

    def drive(self, stopped: Callable[[], bool]) -> None:
        """Drive runs until `stopped()`; after that they have no controller."""
        if self._defrag is not None:
            self._defrag.begin()
        self._checks.begin()
        try:
            while not stopped():
                try:
                    self.adopt()
                    self._retry.recovered()
                except StoreError as error:
                    self._retry.report(error)
                self._stop.wait(LOOK_S)
        finally:
            self._checks.end(CHECKS_STOP_S)
            if self._defrag is not None:  # before the loops stop: they send a slice back that has not left yet
                self._defrag.end(DEFRAG_STOP_S)
            self._stop.set()
            deadline = time.monotonic() + STOP_S
            for thread in self._threads.values():
                thread.join(max(0.0, deadline - time.monotonic()))

    def adopt(self) -> None:
        """Take over each run that has not ended and has no live controller."""
        self._threads = {run: thread for run, thread in self._threads.items() if thread.is_alive()}
        rows, unreadable = self._store.live()
        for error in unreadable:
            if error.run not in self._unreadable:
                self._say(f"skipped `{error.run}`: {error.advice}")
        self._unreadable = {error.run for error in unreadable}
        for row in rows:
            if row.id in self._threads or self._not_before.get(row.id, 0.0) > time.monotonic():
                continue
            if row.owner is not None and row.owner != self._me and row.owner.alive():
                continue
            try:
                self._store.owners.take(row.id, self._me)
            except ConflictError:  # another was faster
                continue
            self._say(f"driving `{row.name}` ({row.id})")
            thread = threading.Thread(target=self._one, args=(row.id,), name=row.id, daemon=True)
            self._threads[row.id] = thread
            thread.start()

    def _one(self, run: RunId) -> None:
        """Drive one run; an error is reported, and the run is tried again later."""
        try:
            state = drive(self._store, run, self._stop.is_set, lambda line: self._say(f"`{run}`: {line}"))
            if state.final:
                self._say(f"`{run}` ended: {state.value}")
        except LaunchError as error:
            self._put_off(run, error.advice)
        except Exception:  # noqa: BLE001  a bug in the loop of one run must not end the others
            traceback.print_exc(file=sys.stderr)
            self._put_off(run, "this is a bug in nvlaunch")

    def _put_off(self, run: RunId, why: str) -> None:
        self._not_before[run] = time.monotonic() + AGAIN_S
        self._say(f"`{run}`: {why}; trying again in {AGAIN_S:.0f} s")
