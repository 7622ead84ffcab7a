"""More or other nodes for a running run.

Chosen from the whole inventory, checked, claimed in one transaction.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from launcher.admission.current_inventory import whole
from launcher.admission.listener import SilentListener
from launcher.admission.node_checks import Examined, examine
from launcher.core.control.resized_record import hindrance
from launcher.core.model.actions import AddSpare, AllotAction, Answer, Relocate, Resize, Result
from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.placement import Placement, Shortfall, Slice, Unavailable, UnavailableNodes
from launcher.core.model.record import Record
from launcher.core.model.run import Run, Target
from launcher.core.model.task import Task
from launcher.core.placement.colocation import with_colocated_slices
from launcher.core.placement.place import exclusive_nodes
from launcher.core.placement.replacement import find_spare, replace_slice
from launcher.core.placement.resize import resize
from launcher.ports import Prober
from launcher.probe.check_gpu import domain_of
from launcher.probe.results import Unknown
from launcher.setup.lease import read_holder
from launcher.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """Nodes for a slice, from the whole inventory, and the run once it has them."""

    nodes: tuple[Node, ...]
    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """Why there are no nodes."""

    message: str


_Choose = Callable[[Run, Record, UnavailableNodes, Inventory], _Choice | _Refusal]


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
            case Relocate():
                return self.relocate(run, action)
            case Resize():
                return self.resize(run, action)

    def add_spare(self, run: Run, action: AddSpare) -> Answer:
        """Give a slice one more spare of its rack and domain.

        FAILED, with a message, where none is free.
        """
        return self._allot(run, lambda *world: _spare(action, *world))

    def relocate(self, run: Run, action: Relocate) -> Answer:
        """Place a slice again; FAILED, with the shortfall, where it fits nowhere."""
        return self._allot(run, lambda *world: _relocated(action, *world))

    def retarget(self, run: Run, task: Task) -> Answer:
        """Claim the nodes that a run needs for a task with more or fewer slices.

        FAILED, with a message, for none.
        """
        return self._allot(run, lambda *world: _targeted(task, *world))

    def resize(self, run: Run, action: Resize) -> Answer:
        """Apply a requested resize.

        DONE also where it was applied before, FAILED where it is not possible any more.
        """
        del action
        refused: list[str] = []

        def become(now: Run, record: Record, unavailable: UnavailableNodes) -> Run:
            del unavailable
            if (message := hindrance(now, record)) is not None:
                refused.append(message)
                return replace(now, target=None)
            return _resized(now, whole(self._store, now.fleet))

        if self._store.allot(run.id, become) is None or refused:
            return Answer(result=Result.FAILED, stage="allot", message="; ".join(refused) or "the run has ended")
        return Answer(result=Result.DONE)

    def _allot(self, run: Run, choose: _Choose) -> Answer:
        """Choose nodes, check them, choose again without unfit ones, and claim.

        Each node is checked once.
        """
        begun = time.monotonic()
        fleet = whole(self._store, run.fleet)
        asked: dict[NodeName, str | None] = {}
        while True:
            choice = self._try(run, fleet, choose, asked)
            if isinstance(choice, _Refusal):
                message = "; ".join((choice.message, *(f"`{name}`: {why}" for name, why in asked.items() if why)))
                return Answer(result=Result.FAILED, stage="allot", message=message, elapsed=time.monotonic() - begun)
            new = [node for node in choice.nodes if node.name not in asked]
            if not new:
                names = tuple(node.name for node in choice.nodes)
                return Answer(result=Result.DONE, message=fold(names), nodes=names, elapsed=time.monotonic() - begun)
            asked |= self._ask(run, fleet, new)

    def _try(
        self, run: Run, fleet: Inventory, choose: _Choose, asked: Mapping[NodeName, str | None]
    ) -> _Choice | _Refusal:
        """Return the current choice; it is claimed where all of its nodes were checked."""
        made: list[_Choice | _Refusal] = []

        def decide(now: Run, record: Record, unavailable: UnavailableNodes) -> Run | None:
            unhealthy = {
                name: replace(unavailable.get(name, Unavailable()), unhealthy=why) for name, why in asked.items() if why
            }
            choice = choose(now, record, {**unavailable, **unhealthy}, fleet)
            made.append(choice)
            if isinstance(choice, _Refusal) or not {node.name for node in choice.nodes} <= asked.keys():
                return None
            return choice.run

        self._store.allot(run.id, decide)
        return made[0] if made else _Refusal(message="the run has ended")

    def _ask(self, run: Run, fleet: Inventory, nodes: Sequence[Node]) -> dict[NodeName, str | None]:
        """Return for each node why it is unfit; None where it is fit."""
        prober = self._open_prober(fleet)
        try:
            return {one.node.name: _against(run, one) for one in examine(fleet, nodes, prober, SilentListener())}
        finally:
            prober.close()


def _spare(
    action: AddSpare, now: Run, record: Record, unavailable: UnavailableNodes, fleet: Inventory
) -> _Choice | _Refusal:
    part = _slice(now, action.slice)
    if part is None:
        return _Refusal(message=f"slice `{action.slice}` is no longer part of the run")
    unfit = {name for name, use in unavailable.items() if use.unhealthy or use.drained} | record.failed_nodes.keys()
    holders = {slot.node for slot in record.slots.values()}
    for name in part.spares:
        if name not in holders and name not in unfit:
            return _Choice(nodes=_nodes(now.fleet, (name,)), run=now)
    found = find_spare(now.task, fleet, _without(unavailable, record.failed_nodes), now.placement, part)
    if found is None:
        return _Refusal(message=f"no free node for slice `{part.key}` in `{part.place}`")
    nodes = _nodes(fleet, (found,))
    return _Choice(nodes=nodes, run=_with(now, replace(part, spares=(*part.spares, found)), nodes, fleet))


def _relocated(
    action: Relocate, now: Run, record: Record, unavailable: UnavailableNodes, fleet: Inventory
) -> _Choice | _Refusal:
    part = _slice(now, action.slice)
    if part is None:
        return _Refusal(message=f"slice `{action.slice}` is no longer part of the run")
    if not set(part.nodes) & (record.requested | record.failed_nodes.keys() | set(action.without)):
        return _Choice(nodes=_nodes(now.fleet, (*part.nodes, *part.spares)), run=now)
    ranks = {member.name for member in now.members() if member.slice_key == part.key}
    own = {*part.nodes, *part.spares, *(slot.node for slot in record.slots.values() if slot.member in ranks)}
    free = {name: use for name, use in unavailable.items() if name not in own or use.unhealthy or use.drained}
    left = [node.name for node in fleet.nodes if node.rack in action.without_racks]
    excluded = (*record.failed_nodes, *action.without, *left)
    found = replace_slice(now.task, fleet, _without(free, excluded), now.placement, part)
    if isinstance(found, Shortfall):
        return _Refusal(message=f"slice `{part.key}` fits nowhere else: {_shortfall(found)}")
    nodes = _nodes(fleet, (*found.nodes, *found.spares))
    return _Choice(nodes=nodes, run=_with(now, found, nodes, fleet))


def _against(run: Run, one: Examined) -> str | None:
    """Return why a node is unfit for a run.

    None where it is fit, or where the run itself uses it.

    A driver that contradicts the inventory would tear the slice apart.
    """
    lease = None if isinstance(one.facts, Unknown) else one.facts.lease
    holder = read_holder(lease) if isinstance(lease, str) else None
    if holder is not None:
        return None if holder.run == run.id else f"held by {holder}"
    domain = None if isinstance(one.facts, Unknown) else domain_of(one.facts)
    written = one.node.domain
    if one.unhealthy is None and domain is not None and written is not None and domain.casefold() != written.casefold():
        return f"the inventory says domain `{written}`, the drivers report `{domain}`"
    return one.unhealthy


def _targeted(
    task: Task, now: Run, record: Record, unavailable: UnavailableNodes, fleet: Inventory
) -> _Choice | _Refusal:
    ours = set(now.placement.nodes)
    free = _without(
        {name: use for name, use in unavailable.items() if name not in ours}, record.failed_nodes.keys() - ours
    )
    found = resize(task, fleet, free, now.placement)
    if isinstance(found, Shortfall):
        return _Refusal(message=f"new slices of `{found.group}` do not fit: {_shortfall(found)}")
    if torn := [old.key for old, new in found.moved if old.nodes != new.nodes]:
        return _Refusal(message=f"{fold(torn)} would have to move")
    nodes = _nodes(fleet, (name for part in found.added for name in (*part.nodes, *part.spares)))
    target = Target(
        task=task,
        comes=found.added,
        goes=tuple(part.key for part in found.removed),
        fleet=fleet.cut_down(node.name for node in nodes),
    )
    aimed = replace(now, target=target)
    message = hindrance(aimed, record)
    return _Refusal(message=message) if message else _Choice(nodes=nodes, run=aimed)


def _resized(now: Run, fleet: Inventory) -> Run:
    """Return the resized run, with the current placement of slices that stay."""
    target = now.target
    if target is None:
        return now
    order = {group.name: at for at, group in enumerate(target.task.groups)}
    stay = [part for part in now.placement.slices if part.key not in target.goes]
    slices = tuple(sorted((*stay, *target.comes), key=lambda part: (order[part.group], part.index)))
    aimed = replace(now, task=target.task, target=None)
    return _placed(aimed, slices, _new(now, target.fleet.nodes), target.fleet.domains, fleet)


def _slice(run: Run, key: str) -> Slice | None:
    return next((part for part in run.placement.slices if part.key == key), None)


def _with(run: Run, part: Slice, nodes: Sequence[Node], fleet: Inventory) -> Run:
    """Return the run with another slice under the same key."""
    slices = tuple(part if part.key == other.key else other for other in run.placement.slices)
    more = _new(run, nodes)
    return _placed(run, slices, more, fleet.cut_down(node.name for node in more).domains, fleet)


def _new(run: Run, nodes: Sequence[Node]) -> tuple[Node, ...]:
    known = {node.name for node in run.fleet.nodes}
    return tuple(node for node in nodes if node.name not in known)


def _placed(
    run: Run, slices: tuple[Slice, ...], more: Sequence[Node], domains: Mapping[str, tuple[str, ...]], fleet: Inventory
) -> Run:
    """Return the run on these slices, with `more` nodes and their domains.

    Its fleet keeps every node that it ever had, and the NVLink domains of these.
    """
    slices = with_colocated_slices(run.task, slices)
    grown = replace(run.fleet, nodes=(*run.fleet.nodes, *more), domains={**domains, **run.fleet.domains})
    placement = Placement(
        slices=slices, reasons=run.placement.reasons, exclusive_nodes=exclusive_nodes(run.task, fleet, slices)
    )
    return replace(run, placement=placement, fleet=grown)


def _nodes(fleet: Inventory, names: Iterable[NodeName]) -> tuple[Node, ...]:
    known = {node.name: node for node in fleet.nodes}
    return tuple(known[name] for name in names)


def _without(unavailable: UnavailableNodes, names: Iterable[NodeName]) -> UnavailableNodes:
    """Return the unavailable nodes, with those that the run itself excluded."""
    return {
        **unavailable,
        **{name: replace(unavailable.get(name, Unavailable()), unhealthy="excluded by the run") for name in names},
    }


def _shortfall(shortfall: Shortfall) -> str:
    need = shortfall.nodes_per_slice + shortfall.spares
    return f"needs {need} nodes in one place, at most {shortfall.largest} are free"
