"""A fleet as the planner of moves sees it: pools of nodes that are alike, the slices that may move, and why others not.

Nodes of one NVLink domain that look the same form a pool. A slice moves with its spares, to nodes of one pool. What a
move costs is GPU time: all GPUs of the gang that restarts, for as long as that takes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL, Inventory, Node
from launcher.core.model.nodeset import NodeName, natural
from launcher.core.model.placement import Placement, Slice, Unavailable, UnavailableNodes
from launcher.core.model.run import RunName
from launcher.core.model.task import Group, RestartWith, Task
from launcher.core.placement.capacity import rank_order
from launcher.core.placement.colocation import placed_groups
from launcher.core.placement.constraints import Constraints, DomainUsage, spread_level
from launcher.core.placement.filters import NodeFilter, is_free, required_levels
from launcher.core.planner.moves import MovableSlice, MoveProblem, WantedSlice


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedTask:
    """A run with its nodes. `movable`: its slices may be moved.

    A restart costs each GPU of a gang the task's `stop_grace`, `restart_s` until it computes again, and half of
    `checkpoint_s`, the time between checkpoints; that is 0 for a program that writes one on `stop_signal`.
    """

    name: RunName
    task: Task
    placement: Placement
    movable: bool = False
    restart_s: float = 120.0
    checkpoint_s: float = 0.0

    @property
    def lost_s(self) -> float:
        """Return the seconds that a restart costs each GPU."""
        return self.task.stop_grace + self.restart_s + self.checkpoint_s / 2

    def gang(self, part: Slice) -> str:
        """Return what restarts when a slice moves: the run, the group or the slice. Groups that share nodes restart
        with the whole run."""
        if any(group.topology.nodes_of is not None for group in self.task.groups):
            return self.name
        match self.task.group(part.group).recovery.restart_with:
            case RestartWith.RUN:
                return self.name
            case RestartWith.GROUP:
                return f"{self.name}/{part.group}"
            case RestartWith.MEMBER:
                return f"{self.name}/{part.key}"

    def own_slices(self) -> tuple[Slice, ...]:
        """Return the slices that have nodes of their own; those of other groups on the same nodes go with them."""
        return tuple(part for part in self.placement.slices if self.task.group(part.group).topology.nodes_of is None)


class Fleet:
    """The pools of an inventory, and what is free in each. `uniform`: each NVLink domain is one pool."""

    def __init__(self, inventory: Inventory, unavailable: UnavailableNodes, wanted: Task) -> None:
        self.inventory = inventory
        self.nodes = {node.name: node for node in inventory.nodes}
        filters = [NodeFilter(group, {}, frozenset()) for group in placed_groups(wanted).groups]
        filters = [one for one in filters if one.by_node_name]
        pools: dict[tuple[object, ...], list[Node]] = {}
        for node in sorted(inventory.nodes, key=lambda node: (natural(node.rack), rank_order(node))):
            if node.drained is None:
                pools.setdefault((*_look(node), *(one.exclusion(node) for one in filters)), []).append(node)
        self.pools = tuple(pools.values())
        self.pool_of = {
            node.name: at
            for at, pool in enumerate(self.pools)
            for node in pool
            if not _out_of_service(unavailable.get(node.name))
        }
        self.free = tuple(
            tuple(node.name for node in pool if is_free(node, unavailable.get(node.name))) for pool in self.pools
        )
        self.uniform = len({(pool[0].rack, pool[0].domain) for pool in self.pools}) == len(self.pools)
        self._allowed: dict[tuple[object, ...], frozenset[int] | None] = {}

    def allowed(self, group: Group, constraints: Constraints | None = None) -> frozenset[int] | None:
        """Return the pools that a group can use under constraints from other groups; None for all of them."""
        rule = group.topology
        names = (rule.racks, rule.exclude_racks, rule.only_nodes, rule.exclude_nodes)
        key = (group.gpus, group.accelerator, rule.within == RACK_LEVEL, required_levels(rule), names)
        if constraints or key not in self._allowed:
            able = NodeFilter(group, {}, frozenset(), constraints)
            fits = frozenset(at for at, pool in enumerate(self.pools) if able.exclusion(pool[0]) is None)
            found = None if len(fits) == len(self.pools) else fits
            if constraints:
                return found
            self._allowed[key] = found
        return self._allowed[key]

    def constraints(self, task: Task, part: Slice, others: Iterable[Slice]) -> Constraints:
        """Return the constraints on a slice from the other slices of its task."""
        usage = DomainUsage(task, self.inventory, {})
        if part.group not in usage.unconstrained:
            for other in others:
                usage.add_fixed(other.group, [self.nodes[name] for name in (*other.nodes, *other.spares)])
        return usage.constraints(part.group)

    def gpus(self, slices: Iterable[Slice]) -> int:
        """Return the GPUs of the members of slices."""
        return sum(self.nodes[name].gpus for part in slices for name in part.nodes)


def _out_of_service(use: Unavailable | None) -> bool:
    return use is not None and (use.unhealthy is not None or use.drained is not None)


def _look(node: Node) -> tuple[object, ...]:
    return (node.rack, node.domain, node.gpus, node.accelerator, node.gpu_driver, *sorted(node.places.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocations:
    """The moves that a fleet allows, in counts, and what the numbers stand for.

    `parts` has run and slice for each movable slice of the problem, `gangs` the name of each gang; `fixed` counts the
    slices that may not move, by reason.
    """

    problem: MoveProblem
    parts: tuple[tuple[PlacedTask, Slice], ...]
    gangs: tuple[str, ...]
    fixed: Mapping[str, int]


def relocations(fleet: Fleet, placed: Sequence[PlacedTask], wanted: tuple[WantedSlice, ...]) -> Relocations:
    """Return the problem of freeing room for wanted slices."""
    fixed: Counter[str] = Counter()
    gangs: dict[str, int] = {}
    costs: list[float] = []
    slices: list[MovableSlice] = []
    parts: list[tuple[PlacedTask, Slice]] = []
    for run in sorted(placed, key=lambda one: natural(one.name)):
        own = run.own_slices()
        for part in own:
            pools = {fleet.pool_of.get(name, -1) for name in (*part.nodes, *part.spares)}
            reason = _fixed(run, part, pools)
            if reason is not None:
                fixed[reason] += 1
                continue
            gang = run.gang(part)
            if gang not in gangs:
                gangs[gang] = len(gangs)
                restarted = [other for other in run.placement.slices if run.gang(other) == gang]
                costs.append(fleet.gpus(_once(restarted)) * run.lost_s)
            slices.append(
                MovableSlice(
                    size=len(part.nodes) + len(part.spares),
                    pool=next(iter(pools)),
                    gang=gangs[gang],
                    allowed=_allowed(fleet, run, part, own),
                )
            )
            parts.append((run, part))
    problem = MoveProblem(
        free=tuple(map(len, fleet.free)),
        slices=tuple(slices),
        gang_costs=tuple(costs),
        wanted=wanted,
    )
    return Relocations(problem=problem, parts=tuple(parts), gangs=tuple(gangs), fixed=dict(fixed))


def _once(slices: Iterable[Slice]) -> Iterator[Slice]:
    """Return slices without those whose nodes came before: groups that share nodes have the same GPUs."""
    seen: set[NodeName] = set()
    for part in slices:
        yield replace(part, nodes=tuple(name for name in part.nodes if name not in seen))
        seen.update(part.nodes)


def _fixed(run: PlacedTask, part: Slice, pools: set[int]) -> str | None:
    """Return why a slice may not move; None where it may."""
    rule = run.task.group(part.group).topology
    if not run.movable:
        return "run starts, recovers or changes now" if run.task.may_move else "not movable"
    if rule.within not in (RACK_LEVEL, NODE_LEVEL):
        return "spans racks"
    if rule.exclusive is not None:
        return "exclusive"
    if rule.spares_per_rack:
        return "shared spares"
    if rule.only_nodes or rule.exclude_nodes:
        return "names nodes"
    if spread_level(rule.spread_members) is not None:
        return "spread members"
    return None if len(pools) == 1 and -1 not in pools else "mixed, unhealthy or drained nodes"


def _allowed(fleet: Fleet, run: PlacedTask, part: Slice, own: Sequence[Slice]) -> frozenset[int] | None:
    task = placed_groups(run.task)
    others = (other for other in own if other.key != part.key)
    return fleet.allowed(task.group(part.group), fleet.constraints(task, part, others))


def unsupported(task: Task) -> str | None:
    """Return why room for a task cannot be planned in counts of nodes; None where it can."""
    for group in placed_groups(task).groups:
        if group.topology.within not in (RACK_LEVEL, NODE_LEVEL, ANY_LEVEL):
            return f"`within: {group.topology.within}` of `{group.name}`: only racks are freed by moves"
    return None


def ways_to_want(fleet: Fleet, task: Task) -> tuple[tuple[WantedSlice, ...], ...]:
    """Return the room that a task wants, slice by slice: one way, or one for each place with all slices in it.

    The places are those of the level of `all_within`, the one with the most room first.
    """
    level = next((group.topology.all_within for group in task.groups if group.topology.all_within), None)
    if level is None:
        return (tuple(_wanted(fleet, task, None)),)
    room: Counter[str] = Counter()
    pools: dict[str, set[int]] = {}
    for at, pool in enumerate(fleet.pools):
        value = pool[0].at(level)
        if value is not None:
            room[value] += len(fleet.free[at])
            pools.setdefault(value, set()).add(at)
    return tuple(tuple(_wanted(fleet, task, pools[value])) for value, _ in room.most_common())


def _wanted(fleet: Fleet, task: Task, inside: AbstractSet[int] | None) -> Iterator[WantedSlice]:
    """Return the wanted slices with the pools they may be in. Where slices may span racks each node is one."""
    for group in placed_groups(task).groups:
        rule, allowed = group.topology, fleet.allowed(group)
        if inside is not None and rule.all_within is not None:
            allowed = frozenset(inside if allowed is None else allowed & inside)
        size = rule.nodes_per_slice + rule.spares + rule.spares_per_rack  # enough, where slices of a rack share spares
        several = rule.slices * size if rule.within == ANY_LEVEL else rule.slices
        yield from [WantedSlice(size=1 if rule.within == ANY_LEVEL else size, allowed=allowed)] * several
