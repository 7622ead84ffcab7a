"""More or other nodes for a running run.

Chosen from the whole inventory, checked, claimed in one transaction.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from launcher.admission import engines
from launcher.admission.current_inventory import whole
from launcher.admission.domains import guessed
from launcher.admission.listener import ControllerListener
from launcher.admission.node_checks import Examined, examine, needs_of
from launcher.admission.node_choice import (
    NoChoice,
    NodeChoice,
    choose_growth,
    choose_move,
    choose_place,
    choose_return,
    choose_spare,
    choose_target,
    resized_run,
    shrunk_run,
)
from launcher.admission.queue.explain import not_free
from launcher.core.control.resized_record import hindrance
from launcher.core.model.actions import AddSpare, AllotAction, Grow, Move, Relocate, Resize, ReturnSpare
from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.placement import Unavailable, UnavailableNodes, mark_unhealthy
from launcher.core.model.receipt import Answer, Result
from launcher.core.model.record import Record
from launcher.core.model.run import Run
from launcher.core.model.task import Task
from launcher.ports import Prober
from launcher.probe.check_gpu import domain_of
from launcher.probe.results import Unknown
from launcher.setup.lease import read_holder
from launcher.store.move_plans import unreserved
from launcher.store.store import Store

_Choose = Callable[[Run, Record, UnavailableNodes, Inventory], NodeChoice | NoChoice]


class StoreAllotter:
    """Allots nodes of the stored inventories; each is checked before a run gets it.

    An action whose receipt was lost is not done twice: nodes that the run already has, and has not used, are returned.
    """

    def __init__(self, store: Store, open_prober: Callable[[Inventory], Prober]) -> None:
        self._store = store
        self._open_prober = open_prober

    def perform(self, run: Run, action: AllotAction) -> Answer:
        """Carry out an action; FAILED with a message where it cannot be done."""
        match action:
            case AddSpare():
                return self.add_spare(run, action)
            case ReturnSpare():
                return self.return_spare(run, action)
            case Relocate():
                return self.relocate(run, action)
            case Move():
                return self.move(run, action)
            case Resize():
                return self.resize(run, action)
            case Grow():
                return self.grow(run)

    def add_spare(self, run: Run, action: AddSpare) -> Answer:
        """Give a slice one more spare of its rack and domain.

        FAILED, with a message, where none is free.
        """
        return self._allot(run, lambda *world: choose_spare(action, *world), outranks=True)

    def return_spare(self, run: Run, action: ReturnSpare) -> Answer:
        """Take a node out of a run; its claim ends once nothing of the run is there. FAILED where a slot is on it."""
        return self._allot(run, lambda now, record, _, fleet: choose_return(action, now, record, fleet))

    def relocate(self, run: Run, action: Relocate) -> Answer:
        """Place a slice again; FAILED, with the shortfall, where it fits nowhere."""
        return self._allot(run, lambda *world: choose_place(action, *world), outranks=True)

    def move(self, run: Run, action: Move) -> Answer:
        """Give slices the nodes that a plan reserved, or their old ones; FAILED, with a message, where it cannot be."""
        plans = self._store.move_plans
        return self._allot(
            run,
            lambda now, record, unavailable, fleet: choose_move(
                action, now, record, unavailable, fleet, plans.reserved(fleet.name)
            ),
            named=True,
        )

    def retarget(self, run: Run, task: Task) -> Answer:
        """Claim the nodes that a run needs for a task with more or fewer slices.

        FAILED, with a message, for none.
        """
        return self._allot(run, lambda *world: choose_target(task, *world))

    def room(self, run: Run) -> frozenset[str]:
        """Return the groups that could have one more slice now, without nodes that queued runs need."""
        now, record = self._store.load(run.id)
        fleet = whole(self._store, run.fleet)
        found = choose_growth(now, record, self._not_free(fleet, now), fleet)
        target = found.run.target if isinstance(found, NodeChoice) else None
        return frozenset(part.group for part in target.comes) if target else frozenset()

    def grow(self, run: Run) -> Answer:
        """Claim nodes for more slices, as many as fit; FAILED, with a message, for none."""
        fleet = whole(self._store, run.fleet)
        queued = self._not_free(fleet, run)
        return self._allot(
            run, lambda now, record, taken, known: choose_growth(now, record, {**queued, **taken}, known)
        )

    def _not_free(self, fleet: Inventory, run: Run) -> UnavailableNodes:
        """Return the nodes that a run cannot grow into; those that it keeps for itself alone are free to it."""
        taken = not_free(self._store, fleet, run.task)
        others = {name: use.without({run.name}) for name, use in taken.items()}
        return {name: use for name, use in others.items() if use != Unavailable()}

    def resize(self, run: Run, action: Resize) -> Answer:
        """Apply a requested resize, or drop a slice.

        DONE also where it was applied before, FAILED where it is not possible any more.
        """
        refused: list[str] = []

        def become(now: Run, record: Record, unavailable: UnavailableNodes) -> Run | None:
            del unavailable
            if action.drop is not None:
                found = shrunk_run(now, record, action.drop, whole(self._store, now.fleet))
                if isinstance(found, Run):
                    return found
                refused.append(found.message)
                return None
            if (message := hindrance(now, record)) is not None:
                refused.append(message)
                return replace(now, target=None)
            return resized_run(now, whole(self._store, now.fleet))

        if self._store.allot(run.id, become) is None or refused:
            return Answer(result=Result.FAILED, stage="allot", message="; ".join(refused) or "the run has ended")
        return Answer(result=Result.DONE)

    def _allot(self, run: Run, choose: _Choose, *, outranks: bool = False, named: bool = False) -> Answer:
        """Choose nodes, check them, choose again without unfit ones, and claim.

        Each node is checked once. A choice that `outranks` plans of moves gets nodes that they reserved, if no others.
        Nodes that are `named` may be in domains that only their drivers know.
        """
        begun = time.monotonic()
        fleet = whole(self._store, run.fleet)
        asked: dict[NodeName, str | None] = {}
        reported: dict[NodeName, str] = {}
        while True:
            shown = guessed(fleet, {**self._store.domains.of(fleet.name), **reported}) if named else fleet
            choice = self._try(run, shown, choose, asked, outranks=outranks)
            if isinstance(choice, NoChoice):
                message = "; ".join((choice.message, *(f"`{name}`: {why}" for name, why in asked.items() if why)))
                return Answer(result=Result.FAILED, stage="allot", message=message, elapsed=time.monotonic() - begun)
            new = [node for node in choice.nodes if node.name not in asked]
            if not new:
                names = tuple(node.name for node in choice.nodes)
                return Answer(result=Result.DONE, message=fold(names), nodes=names, elapsed=time.monotonic() - begun)
            written = {node.name: node for node in fleet.nodes}
            asked |= self._ask(run, fleet, [written.get(node.name, node) for node in new], reported)

    def _try(
        self, run: Run, fleet: Inventory, choose: _Choose, asked: Mapping[NodeName, str | None], *, outranks: bool
    ) -> NodeChoice | NoChoice:
        """Return the current choice; it is claimed where all of its nodes were checked."""
        made: list[NodeChoice | NoChoice] = []

        def decide(now: Run, record: Record, unavailable: UnavailableNodes) -> Run | None:
            unhealthy = {name: why for name, why in asked.items() if why}
            choice = choose(now, record, mark_unhealthy(unavailable, unhealthy), fleet)
            if outranks and isinstance(choice, NoChoice):
                freed = unreserved(unavailable, self._store.move_plans.reserved(fleet.name))
                choice = choose(now, record, mark_unhealthy(freed, unhealthy), fleet)
            made.append(choice)
            if isinstance(choice, NoChoice) or not {node.name for node in choice.nodes} <= asked.keys():
                return None
            return choice.run

        self._store.allot(run.id, decide)
        return made[0] if made else NoChoice(message="the run has ended")

    def _ask(
        self, run: Run, fleet: Inventory, nodes: Sequence[Node], reported: dict[NodeName, str]
    ) -> dict[NodeName, str | None]:
        """Return for each node why it is unfit, None where it is fit; add the domain that its driver reports."""
        prober = self._open_prober(fleet)
        try:
            needs = needs_of(run.task, run.fleet.container_engine)
            found = examine(fleet, nodes, prober, ControllerListener(self._store, run.id), needs)
        finally:
            prober.close()
        for one in found:
            if (domain := _reported_domain(one)) is not None:
                reported[one.node.name] = domain
        lacking = engines.unfit(run.task, run.fleet.container_engine, found)
        return {one.node.name: _against(run, one) or lacking.get(one.node.name) for one in found}


def _reported_domain(one: Examined) -> str | None:
    return None if isinstance(one.facts, Unknown) else domain_of(one.facts)


def _against(run: Run, one: Examined) -> str | None:
    """Return why a node is unfit for a run.

    None where it is fit, or where the run itself uses it.

    A driver that contradicts the inventory would tear the slice apart.
    """
    lease = None if isinstance(one.facts, Unknown) else one.facts.lease
    holder = read_holder(lease) if isinstance(lease, str) else None
    if holder is not None:
        return None if holder.run == run.id else f"held by {holder}"
    domain, written = _reported_domain(one), one.node.domain
    if one.unhealthy is None and domain is not None and written is not None and domain.casefold() != written.casefold():
        return f"the inventory says domain `{written}`, the drivers report `{domain}`"
    return one.unhealthy
