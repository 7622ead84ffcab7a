"""`watch --all --defrag`: moves slices where a waiting run is worth it, in a thread of the service."""

import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from launcher.admission.moves.automatic import Consideration, consider, fleets_that_wait
from launcher.admission.moves.execution import PlanExecution, StepProgress
from launcher.admission.moves.planning import reserve
from launcher.admission.store_retry import Say
from launcher.core.planner.worth import Ground
from launcher.errors import LaunchError
from launcher.store.rows import RunRow
from launcher.store.store import Store
from launcher.store.user import User
from launcher.transport.clock import SystemClock

AGAIN_S = 60.0
"""How often waiting runs are considered without a change of the queue (s): their wait grows."""

LOOK_S = 5.0
"""How often the queue is looked at (s)."""

SHARE = 10
"""A look at a large fleet computes for long: the next one comes after this many times as long."""


class DefragService:
    """Considers waiting runs until it is stopped; carries out one plan at a time.

    The runs are driven by the service itself. `say` takes log lines: each decision once, with its reason.
    """

    def __init__(self, home: Path, say: Say) -> None:
        self._store = Store(home)
        self._say = say
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="defrag", daemon=True)
        self._said: dict[str, Ground] = {}

    def begin(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self, timeout: float) -> None:
        """Stop: a step under way goes back, or to its end where its ranks have stopped already."""
        self._stop.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        number, due, pause = -1, 0.0, LOOK_S
        while not self._stop.wait(pause):
            try:
                now = self._store.queue.number()
                if now != number or time.monotonic() >= due:
                    pause = max(LOOK_S, SHARE * self.look())
                    number, due = self._store.queue.number(), time.monotonic() + AGAIN_S
            except LaunchError as error:
                self._say(f"defrag: {error.advice}")
            except Exception:  # noqa: BLE001  a bug here must not end the service
                traceback.print_exc(file=sys.stderr)

    def look(self) -> float:
        """Consider the waiting runs of all inventories once, and move where that is worth it.

        Return how long the considerations took (s).
        """
        computed = 0.0
        for fleet in fleets_that_wait(self._store):
            begun = time.monotonic()
            found = consider(self._store, fleet)
            computed += time.monotonic() - begun
            for one in found:
                self._tell(one)
                if one.plan is not None:
                    self._carry_out(one)
        return computed

    def _tell(self, one: Consideration) -> None:
        """Log a decision, unless it is that of the last time with other numbers."""
        key = str(one.room.queued)
        if self._said.get(key) is not one.verdict.ground or one.plan is not None:
            self._said[key] = one.verdict.ground
            self._say(f"defrag: `{one.name}`: {'moving' if one.plan else 'not moving'}: {one.verdict.reason}")

    def _carry_out(self, one: Consideration) -> None:
        assert one.plan is not None
        assert one.room.queued is not None
        waiting = self._store.find(one.room.queued)
        plan = reserve(self._store, one.room, one.plan, User.current())
        stopped: Callable[[], bool] = self._stop.is_set
        execution = PlanExecution(
            self._store, plan, SystemClock(), ensure=_driven_here, tell=self._progress, stopped=stopped
        )
        ended = execution.run(waiting)
        self._say(f"defrag: `{one.name}`: {plan.id} {ended.state.value}: {ended.message}")

    def _progress(self, news: StepProgress) -> None:
        moved = ", ".join(f"{part.slice}" for part in news.step.new)
        why = f": {news.message}" if news.message else ""
        self._say(f"defrag: step {news.number} of {news.total}: `{news.step.run}` {moved} {news.state.value}{why}")


def _driven_here(row: RunRow) -> None:
    """Leave a run to the service, which drives every run without a controller."""
    del row
