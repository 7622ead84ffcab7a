"""The check of a run's nodes before it starts: bad nodes are replaced, and the others checked again where needed."""

import time
from collections.abc import Callable

from launcher.admission.checks.consequences import fails_everywhere, left_out, record_failures
from launcher.admission.checks.execution import CheckReport, CheckRunner, budget, by_domain
from launcher.admission.listener import AdmissionListener, NodesPassed, StartCheckBegun
from launcher.admission.preflight import Preflight
from launcher.core.checks.bisection import cut_slices
from launcher.core.model.checks import CheckScope, CheckStage, NodeCheck
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.placement import Placement, Shortfall, UnavailableNodes
from launcher.errors import ConflictError, ProvisionError
from launcher.ports import Checker
from launcher.store.store import Store
from launcher.store.user import User
from launcher.transport.clock import pause

AGAIN_S = 1.0
"""How long to wait where a node was taken between its placement and its check (s)."""

_NAME = CheckStage.BEFORE_START.value


class StartCheck:
    """Checks the nodes of a placement until all pass; nodes that passed once are not checked again.

    Nodes for which the check cannot tell count as passed, and so do those without a partner to test them with.
    """

    def __init__(
        self,
        store: Store,
        fleet: Inventory,
        open_checker: Callable[[Inventory], Checker],
        listener: AdmissionListener,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store, self._fleet, self._open = store, fleet, open_checker
        self._listener, self._stopped = listener, stopped
        self._passed: set[NodeName] = set()
        self._asked: set[NodeName] = set()
        self._deadline: float | None = None

    def settle(
        self, flight: Preflight, answer: Placement | Shortfall, unavailable: Callable[[], UnavailableNodes]
    ) -> Placement | Shortfall:
        """Return a placement whose nodes have all passed, or why there is none.

        `unavailable` returns the nodes that are not free now.

        ProvisionError where the check fails on most nodes, or where its time is over.
        """
        check = self._fleet.checks.before_start
        if check is None:
            return answer
        while isinstance(answer, Placement) and not self._stopped():
            due = [name for name in answer.nodes if name not in self._passed]
            if not due:
                break
            self._check_time(check, due)
            try:
                report = self._run(check, answer, due)
            except ConflictError:  # it was taken meanwhile
                pause(AGAIN_S)
            else:
                self._take_in(check, report, flight)
            answer = flight.place(unavailable())
        return answer

    def _run(self, check: NodeCheck, answer: Placement, due: list[NodeName]) -> CheckReport:
        checker = self._open(self._fleet)
        try:
            runner = CheckRunner(
                self._store, self._fleet, _NAME, check, checker, by=str(User.current()), stopped=self._stopped
            )
            # Several nodes at once: those of a slice together, also the ones that have passed with another partner.
            own = [part for part in answer.slices if {*part.nodes, *part.spares} & set(due)]
            whole = [name for part in own for name in dict.fromkeys((*part.nodes, *part.spares))]
            nodes = due if check.on is CheckScope.NODE else list(dict.fromkeys(whole))
            self._asked = set(nodes)
            begun = StartCheckBegun(nodes=nodes, limit=check.limit, total=budget(check))
            with runner.reserved(nodes):
                self._listener.notify(begun)
                if check.on is CheckScope.NODE:
                    return runner.alone(nodes)
                return runner.in_groups(self._parts(check, nodes), self._deadline or 0.0)
        finally:
            checker.close()

    def _parts(self, check: NodeCheck, names: list[NodeName]) -> tuple[tuple[NodeName, ...], ...]:
        domains = by_domain([node for node in self._fleet.nodes if node.name in set(names)])
        size = 2 if check.on is CheckScope.PAIR else max(map(len, domains.values()))
        return cut_slices(domains, max(2, size))

    def _take_in(self, check: NodeCheck, report: CheckReport, flight: Preflight) -> None:
        record_failures(self._store, self._fleet.name, _NAME, check, report)
        self._listener.notify(NodesPassed(results=report.results))
        unfit = left_out(report)
        if fails_everywhere(report):
            raise ProvisionError(
                f"`before_start` fails on {len(unfit)} of {len(report.results)} nodes: the check itself may be wrong",
                outcomes=tuple((one.node, one.message) for one in unfit),
                hints=("try it with `nvlaunch check --check before_start`, or remove it from the inventory",),
            )
        flight.exclude({one.node: f"check `{_NAME}`: {one.message}" for one in unfit})
        self._passed |= self._asked - {one.node for one in unfit}

    def _check_time(self, check: NodeCheck, due: list[NodeName]) -> None:
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + budget(check)
        elif now + check.limit > self._deadline:
            raise ProvisionError(
                f"`before_start` did not find enough good nodes in its time; not checked yet: {fold(due)}",
                outcomes=(),
                hints=("`nvlaunch check` shows what is wrong with the nodes",),
            )
