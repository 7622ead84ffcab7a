"""The first stage of `up`: the nodes of a placement are asked, and what was found out is told."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from launcher.admission.preflight import Preflight, unknown_domains, with_domains
from launcher.cli.intake import Request
from launcher.cli.options import home
from launcher.cli.output.console import clean, say, warn
from launcher.cli.output.doctor import rows
from launcher.cli.output.progress import Asking
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName, fold, fold_messages
from launcher.core.model.placement import Placement, Shortfall, UnavailableNodes
from launcher.drive.control import open_prober
from launcher.errors import LeaseHeldError, NoCapacityError
from launcher.probe.findings import CheckResult
from launcher.setup.lease import Holder
from launcher.store.domains import Domains


class MovedError(Exception):
    """The task would go elsewhere than where it was checked: other runs came first."""


class Ready:
    """A task, and the nodes that were found fit for it."""

    def __init__(self, request: Request, flight: Preflight, domains: Domains) -> None:
        self._request = request
        self._flight = flight
        self._domains = domains
        self._checked: Placement | None = None

    @property
    def fleet(self) -> Inventory:
        """Return the inventory with the domains that the nodes reported."""
        return self._flight.fleet

    def place(self, unavailable: UnavailableNodes) -> Placement:
        """Return a placement of nodes that are well, and tell what else was found; NoCapacityError for none."""
        try:
            answer = self._flight.place(unavailable)
        finally:
            self._domains.keep(self._request.fleet.name, self._flight.reported, time.time())
        self._tell_held()
        if isinstance(answer, Shortfall):
            self._check_held(unavailable)
            raise NoCapacityError(answer)
        self._checked = answer
        self._tell(answer)
        return answer

    def decide(self, unavailable: UnavailableNodes) -> Placement | Shortfall:
        """Return the same placement while it holds; asks nobody. MovedError where it does not."""
        answer = self._flight.again(unavailable)
        if isinstance(answer, Placement) and answer != self._checked:
            raise MovedError
        return answer

    def _check_held(self, unavailable: UnavailableNodes) -> None:
        """Where nothing but the holders of nodes is in the way, it is they that are named."""
        held = self._flight.held
        if held and isinstance(self._flight.unheld(unavailable), Placement):
            others = sorted({str(holder) for holder in held.values()})
            hint = (
                "`nvlaunch doctor -o json` shows the lease of each node; ask its owner, or wait until the run is over"
            )
            raise LeaseHeldError(
                f"what is left does not hold `{self._request.task.name}`: {held_words(held)}",
                holder="; ".join(others),
                hints=(hint,),
            )

    def _tell_held(self) -> None:
        if self._flight.held:
            say(clean(f"passed over {held_words(self._flight.held)}"))

    def _tell(self, placement: Placement) -> None:
        for names, words in fold_messages(self._flight.sick.items()):
            say(clean(f"passed over {names}: {words}"))
        for row in rows(self._flight.of(placement)):
            if row.finding.result is CheckResult.BAD:
                warn(clean(f"{row.whose}: {row.facts}: {row.finding.message}"))


def held_words(held: Mapping[NodeName, Holder]) -> str:
    """Return who has which nodes, and since when the first of them."""
    nodes: dict[str, list[NodeName]] = {}
    since: dict[str, str] = {}
    for name, holder in held.items():
        nodes.setdefault(holder.who, []).append(name)
        since[holder.who] = min(since.get(holder.who, holder.since), holder.since)
    return "; ".join(
        f"{fold(names)} held by {Holder(who=who, run='', since=since[who])}" for who, names in nodes.items()
    )


@contextmanager
def preflight(request: Request, held: Mapping[NodeName, Holder] | None = None) -> Iterator[Ready]:
    """Return what places a task on nodes that were asked; they can be asked as long as the block lasts.

    `held` are nodes that others were seen to have.
    """
    fleet, domains = request.fleet, Domains(home())
    prober = open_prober(home(), fleet)
    try:
        with Asking(fleet) as asking:
            flight = Preflight(request.task, fleet, prober, asking, domains.of(fleet.name), held)
            yield Ready(request, flight, domains)
    finally:
        prober.close()
        domains.close()


def as_remembered(fleet: Inventory) -> Inventory:
    """Return the inventory with the domains that its nodes once reported; asks nobody, and says so where it matters."""
    found = with_domains(fleet, Domains(home()).of(fleet.name))
    if missing := unknown_domains(found):
        warn(f"the NVLink domain of {fold(missing)} is not known yet: `nvlaunch doctor` or `up` asks the nodes")
    return found
