"""What a slice that fits into no rack would cost across racks."""

from dataclasses import dataclass, replace

from launcher.core.model.inventory import ANY_LEVEL, RACK_LEVEL, Inventory
from launcher.core.model.placement import Placement, Shortfall, UnavailableNodes
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.colocation import placed_groups
from launcher.core.placement.solver import assign
from launcher.core.placement.suggestions import SUGGESTION_WORK
from launcher.core.planner.bandwidth import best_split
from launcher.core.planner.placement_cost import SliceCost, slice_costs


@dataclass(frozen=True, slots=True, kw_only=True)
class Straddling:
    """The slowest slice of a refused group, if slices may straddle racks: `within` a coarser level.

    `balance` is the level of its `balance` key, None without. Of all `slices` of the group so many `straddle` racks.
    """

    slice: str
    slices: int
    straddle: int
    within: str
    balance: str | None
    cost: SliceCost


def straddling(
    task: Task, inventory: Inventory, unavailable: UnavailableNodes, shortfall: Shortfall
) -> tuple[Straddling, ...]:
    """Return what straddling racks costs a group that was refused because no rack has room for its slice.

    Each is a placement that was tried, at the finest level at which the task fits: the one that `within` gives, and
    that of `balance: rack` where free nodes allow larger pieces. Empty where straddling does not help, no slice of the
    group needs links between nodes, or NVLink domains are unknown.
    """
    owners = placed_groups(task)
    group = owners.group(shortfall.group)
    rule = group.topology
    need = rule.nodes_per_slice + rule.spares
    if rule.within != RACK_LEVEL or rule.spares_per_rack or rule.nodes_per_slice == 1 or shortfall.largest >= need:
        return ()
    trial = _Trial(group, owners, inventory, unavailable)
    for level in _coarser(inventory, rule.all_within):
        plain = trial.place(replace(rule, within=level))
        if plain is None:
            continue
        if plain.cost.unknown:
            return ()
        best = best_split((rack.free for rack in shortfall.racks), rule.nodes_per_slice)
        if rule.balance is not None or best is None or min(best) <= min(plain.cost.nodes):
            return (plain,)
        even = trial.place(replace(rule, within=level, balance=RACK_LEVEL))
        return (plain, even) if even is not None and even.cost.speed > plain.cost.speed else (plain,)
    return ()


def _coarser(inventory: Inventory, all_within: str | None) -> list[str]:
    """Return the levels above the rack, the finest first, up to that of all slices."""
    levels = [*reversed(inventory.levels[:-1]), ANY_LEVEL]
    return levels[: levels.index(all_within) + 1] if all_within in levels else levels


@dataclass(frozen=True, slots=True)
class _Trial:
    """Places a task with other rules of one group."""

    group: Group
    task: Task
    inventory: Inventory
    unavailable: UnavailableNodes

    def place(self, rule: TopologyRule) -> Straddling | None:
        """Return the slowest slice of the group; None if the task does not fit, or no slice has a cost."""
        group = replace(self.group, topology=rule)
        task = replace(self.task, groups=tuple(group if one is self.group else one for one in self.task.groups))
        placement = assign(task, self.inventory, self.unavailable, (), SUGGESTION_WORK)
        if not isinstance(placement, Placement):
            return None
        slices = [part for part in placement.slices if part.group == group.name]
        costs = slice_costs(task, slices, self.inventory).by_slice
        if not costs:
            return None
        slowest = min(costs, key=lambda key: costs[key].speed)
        return Straddling(
            slice=slowest,
            slices=len(costs),
            straddle=sum(cost.straddles for cost in costs.values()),
            within=rule.within,
            balance=rule.balance,
            cost=costs[slowest],
        )
