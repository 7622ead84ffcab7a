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

HOLDS_S = 600.0
"""How long a node that has passed is not checked again, nor a task whose check was in vain (s): a queued run is placed
every half a minute."""

_NAME = CheckStage.BEFORE_START.value


class StartCheck:
    """Checks the nodes of a placement until all pass; nodes that passed once are not checked again.

    Nodes for which the check cannot tell count as passed, and so do those without a partner to test them with.
    """

    def __init__(
        self,
        store: Store,
        open_checker: Callable[[Inventory], Checker],
        listener: AdmissionListener,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store, self._open = store, open_checker
        self._listener, self._stopped = listener, stopped
        self._passed: dict[NodeName, float] = {}
        self._in_vain: tuple[float, ProvisionError] | None = None

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped, so that a placement may be unchecked."""
        return self._stopped()

    def settle(
        self,
        fleet: Inventory,
        flight: Preflight,
        answer: Placement | Shortfall,
        unavailable: Callable[[], UnavailableNodes],
    ) -> Placement | Shortfall:
        """Return a placement whose nodes have all passed, or why there is none.

        `unavailable` returns the nodes that are not free now.

        ProvisionError where the check fails on most nodes, or where its time is over.
        """
        check = fleet.checks.before_start
        if check is None:
            return answer
        begun = time.monotonic()
        if self._in_vain is not None and begun < self._in_vain[0] + HOLDS_S:
            raise self._in_vain[1]
        self._passed = {name: at for name, at in self._passed.items() if begun < at + HOLDS_S}
        try:
            while isinstance(answer, Placement) and not self._stopped():
                due = [name for name in answer.nodes if name not in self._passed]
                if not due:
                    break
                _check_time(check, due, begun)
                try:
                    self._pass(fleet, check, flight, answer, due, begun + budget(check))
                except ConflictError:  # one was taken meanwhile
                    pause(AGAIN_S)
                answer = flight.place(unavailable())
        except ProvisionError as error:
            self._in_vain = (time.monotonic(), error)
            raise
        return answer

    def _pass(
        self,
        fleet: Inventory,
        check: NodeCheck,
        flight: Preflight,
        answer: Placement,
        due: list[NodeName],
        deadline: float,
    ) -> None:
        """Check nodes, those of a slice together, and note which have passed; the others become unhealthy."""
        nodes = due
        if check.on is not CheckScope.NODE:  # also those that have passed with other partners
            own = [part for part in answer.slices if {*part.nodes, *part.spares} & set(due)]
            nodes = list(dict.fromkeys(name for part in own for name in (*part.nodes, *part.spares)))
        report = self._run(fleet, check, nodes, deadline)
        if self._stopped():
            return
        record_failures(self._store, fleet.name, _NAME, check, report)
        self._listener.notify(NodesPassed(results=report.results))
        unfit = {one.node: f"check `{_NAME}`: {one.message}" for one in left_out(report)}
        if fails_everywhere(report):
            raise ProvisionError(
                f"`before_start` fails on {len(unfit)} of {len(report.results)} nodes: the check itself may be wrong",
                outcomes=tuple(unfit.items()),
                hints=("try it with `nvlaunch check --check before_start`, or remove it from the inventory",),
            )
        flight.exclude(unfit)
        self._passed |= dict.fromkeys((name for name in nodes if name not in unfit), time.monotonic())

    def _run(self, fleet: Inventory, check: NodeCheck, nodes: list[NodeName], deadline: float) -> CheckReport:
        checker = self._open(fleet)
        try:
            by = str(User.current())
            runner = CheckRunner(self._store, fleet, _NAME, check, checker, by=by, stopped=self._stopped)
            with runner.reserved(nodes):
                self._listener.notify(StartCheckBegun(nodes=nodes, limit=check.limit, total=budget(check)))
                if check.on is CheckScope.NODE:
                    return runner.alone(nodes)
                return runner.in_groups(_parts(fleet, check, nodes), deadline)
        finally:
            checker.close()


def _parts(fleet: Inventory, check: NodeCheck, names: list[NodeName]) -> tuple[tuple[NodeName, ...], ...]:
    domains = by_domain([node for node in fleet.nodes if node.name in set(names)])
    size = 2 if check.on is CheckScope.PAIR else max(map(len, domains.values()))
    return cut_slices(domains, max(2, size))


def _check_time(check: NodeCheck, due: list[NodeName], begun: float) -> None:
    """Raise ProvisionError where one more check would take longer than all may."""
    now = time.monotonic()
    if now > begun and now + check.limit > begun + budget(check):
        raise ProvisionError(
            f"`before_start` did not find enough good nodes in its time; not checked yet: {fold(due)}",
            outcomes=(),
            hints=("`nvlaunch check` shows what is wrong with the nodes",),
        )
