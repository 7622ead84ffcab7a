"""A placement on checked nodes, verified again when the run is stored."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from launcher.admission.allocation import ALLOCATION_S, await_allocation
from launcher.admission.checks.before_start import StartCheck
from launcher.admission.checks.consequences import end_idle_checks
from launcher.admission.context import AdmissionContext
from launcher.admission.listener import JobAwaited, NodesChecked, NodesHeld, NodesUnfit
from launcher.admission.preflight import Preflight
from launcher.admission.request import Request
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.placement import Placement, Shortfall, UnavailableNodes
from launcher.errors import ConflictError
from launcher.setup.lease import Holder


class MovedError(Exception):
    """The task would be placed on other nodes than those that were checked.

    Other runs came first.
    """


class CheckedPlacement:
    """Places a task on nodes that were asked and found fit."""

    def __init__(self, context: AdmissionContext, request: Request, flight: Preflight) -> None:
        self._context = context
        self._request = request
        self._flight = flight
        self._checked: Placement | None = None
        self._check = (
            None if context.open_checker is None else StartCheck(context.store, context.open_checker, context.listener)
        )

    @property
    def fleet(self) -> Inventory:
        """Return the inventory with the domains that the nodes reported."""
        return self._flight.fleet

    def place(self, taken: UnavailableNodes) -> Placement:
        """Return a placement on fit nodes, and report skipped ones.

        NoCapacityError for none; ConflictError where only the leases of others are in the way.
        """
        end_idle_checks(self._context.store, self._request.fleet.name)
        return self._accept(
            taken, lambda: await_allocation(self._flight, lambda: self._flight.place(taken), self._tell)
        )

    def _tell(self, nodes: Sequence[NodeName]) -> None:
        self._context.listener.notify(JobAwaited(nodes=nodes, limit=ALLOCATION_S))

    def pass_check(self, taken: Callable[[], UnavailableNodes]) -> Placement | None:
        """Check the placed nodes with `before_start`, and replace those that fail, until all pass.

        Return the placement where it has changed. NoCapacityError where the task fits nowhere else, ProvisionError
        where the check fails on most nodes.
        """
        before, check = self._checked, self._check
        if check is None or before is None:
            return None
        now = taken()
        found = self._accept(now, lambda: check.settle(self._request.fleet, self._flight, before, taken))
        return None if found == before else found

    def _accept(self, taken: UnavailableNodes, ask: Callable[[], Placement | Shortfall]) -> Placement:
        listener = self._context.listener
        unhealthy = dict(self._flight.unhealthy)
        try:
            answer = ask()
        finally:
            self._context.store.domains.keep(self._request.fleet.name, self._flight.reported, time.time())
        if self._flight.held:
            listener.notify(NodesHeld(held=self._flight.held))
        if isinstance(answer, Shortfall):
            self._check_held(taken)
            raise self._flight.refusal(answer, taken)
        before, self._checked = self._checked, answer
        if self._flight.unhealthy != unhealthy:
            listener.notify(NodesUnfit(unfit=self._flight.unhealthy))
        if answer != before:
            listener.notify(NodesChecked(examined=self._flight.of(answer)))
        return answer

    def decide(self, taken: UnavailableNodes) -> Placement | Shortfall:
        """Return the checked placement while it is still the best.

        Asks no node. MovedError where it is not.
        """
        answer = self._flight.again(taken)
        if isinstance(answer, Placement) and answer != self._checked:
            raise MovedError
        return answer

    def _check_held(self, taken: UnavailableNodes) -> None:
        held = self._flight.held
        if held and isinstance(self._flight.unheld(taken), Placement):
            raise ConflictError(
                f"not enough nodes left for `{self._request.task.name}`: {held_text(held)}",
                holder="; ".join(sorted({str(holder) for holder in held.values()})),
                hints=("`nvlaunch doctor -o json` shows the lease of each node; ask its holder, or wait for its end",),
            )


def held_text(held: Mapping[NodeName, Holder]) -> str:
    """Return who holds which nodes, and since when the first of them."""
    nodes: dict[str, list[NodeName]] = {}
    since: dict[str, str] = {}
    for name, holder in held.items():
        nodes.setdefault(holder.who, []).append(name)
        since[holder.who] = min(since.get(holder.who, holder.since), holder.since)
    return "; ".join(
        f"{fold(names)} held by {Holder(who=who, run='', since=since[who])}" for who, names in nodes.items()
    )


@contextmanager
def checked(
    context: AdmissionContext, request: Request, held: Mapping[NodeName, Holder] | None = None
) -> Iterator[CheckedPlacement]:
    """Return what places a task on checked nodes.

    They can be asked during this block only.

    `held` are nodes that others were seen to hold.
    """
    fleet = request.fleet
    prober = context.open_prober(fleet)
    try:
        remembered = context.store.domains.of(fleet.name)
        avoided = context.store.ledger.avoided(fleet.name, request.task.name, time.time())
        flight = Preflight(request.task, fleet, prober, context.listener, remembered, held, avoided)
        yield CheckedPlacement(context, request, flight)
    finally:
        prober.close()
