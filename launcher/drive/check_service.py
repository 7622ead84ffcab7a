"""Checks of quarantined and idle nodes, in threads of the service."""

import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from launcher.admission.checks.idle import IdleResult, check_idle, next_rack
from launcher.admission.checks.returns import CheckedReturn, check_return, due_returns
from launcher.admission.current_inventory import whole
from launcher.admission.store_retry import Say
from launcher.core.checks.results import NodeVerdict
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName, fold
from launcher.drive.adapters import open_checker
from launcher.errors import LaunchError
from launcher.store.store import Store

LOOK_S = 5.0
"""How often quarantined and idle nodes are looked at (s)."""

FRESH_S = 60.0
"""How old the inventories may be (s): a large file takes seconds to read."""

CHECKS_STOP_S = 5.0
"""How long to wait for checks to end, when the process is asked to stop (s)."""

FAN_OUT = 32
"""Quarantined nodes that are checked at the same time."""


class CheckService:
    """Checks quarantined nodes before their return, and idle nodes from time to time, until it is stopped.

    `say` takes log lines. With `returns_only`, idle nodes are left alone.
    """

    def __init__(self, home: Path, say: Say, *, returns_only: bool = False) -> None:
        self._home, self._store, self._say = home, Store(home), say
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._known: dict[str, Inventory] = {}
        self._said: dict[NodeName, str] = {}
        self._due = 0.0
        self._threads = [
            threading.Thread(target=self._loop, args=(once,), name="checks", daemon=True)
            for once in (self.return_nodes, *(() if returns_only else (self.check_one_rack,)))
        ]

    def begin(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def end(self, timeout: float) -> None:
        """Stop: checks under way end, and say nothing."""
        self._stop.set()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def return_nodes(self) -> None:
        """Check the quarantined nodes that are due once, all at the same time."""
        for fleet in self._fleets():
            if fleet.checks.before_return is None or not self._store.ledger.quarantines(fleet.name):
                continue
            due = due_returns(self._store, fleet, time.time())
            if not due:
                continue
            with ThreadPoolExecutor(min(FAN_OUT, len(due)), thread_name_prefix="return") as pool:
                for found in pool.map(partial(self._return, fleet), due, due.values()):
                    if found is not None and self._said.get(found.node) != found.decision.reason:
                        self._said[found.node] = found.decision.reason
                        what = "came back" if found.decision.now else "stays out"
                        self._say(f"checks: {found.node} {what}: {found.decision.reason}")

    def check_one_rack(self) -> None:
        """Check the idle nodes of the rack of each inventory that has waited longest."""
        for fleet in self._fleets():
            rack = next_rack(self._store, fleet, time.time())
            if rack is None or self._stop.is_set():
                continue
            checker = open_checker(self._home, fleet)
            try:
                found = check_idle(self._store, fleet, rack, checker, self._stop.is_set)
            finally:
                checker.close()
            if found is not None:
                self._tell(found)

    def _return(self, fleet: Inventory, node: NodeName, attempts: int) -> CheckedReturn | None:
        checker = open_checker(self._home, fleet)
        try:
            return check_return(self._store, fleet, node, attempts, checker, self._stop.is_set)
        finally:
            checker.close()

    def _fleets(self) -> list[Inventory]:
        """Return the inventories that runs were placed on, as their files were a minute ago at most."""
        with self._lock:
            if time.monotonic() >= self._due:
                kept = [whole(self._store, one.inventory) for one in self._store.inventories.all()]
                self._known = {one.name: one for one in kept}
                self._due = time.monotonic() + FRESH_S
            return list(self._known.values())

    def _tell(self, found: IdleResult) -> None:
        totals = {verdict: len(found.report.of(verdict)) for verdict in NodeVerdict}
        said = ", ".join(f"{number} {verdict.value}" for verdict, number in totals.items() if number)
        self._say(f"checks: idle nodes of {found.rack}: {said}")
        if found.quarantined:
            self._say(f"checks: quarantined {fold(found.quarantined)}")
        if found.doubtful:
            self._say("checks: `periodic_idle` fails on most nodes: the check itself may be wrong; none is quarantined")

    def _loop(self, once: Callable[[], None]) -> None:
        while not self._stop.wait(LOOK_S):
            try:
                once()
            except LaunchError as error:
                self._say(f"checks: {error.advice}")
            except Exception:  # noqa: BLE001  a bug here must not end the service
                traceback.print_exc(file=sys.stderr)
