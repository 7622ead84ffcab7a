"""Counting: a proof without search that groups do not fit, because they need more nodes than there are."""

from launcher.core.placement.capacity import Capacity, Demand


def needs_too_many_nodes(capacity: Capacity) -> bool:
    """Whether all groups, or those of one kind of node, need more nodes than are free for them.

    If so, no placement exists. `capacity` has to be as it was before anything was placed. Spares per rack do not count.
    """
    demands = [demand for demand in capacity.demands.values() if demand.missing]
    kinds = {demand.use for demand in demands}
    sets = [[demand for demand in demands if demand.use == use] for use in kinds]
    return any(_need(some) > _free(capacity, some) for some in (*sets, demands))


def _need(demands: list[Demand]) -> int:
    return sum(demand.missing * demand.need for demand in demands)


def _free(capacity: Capacity, demands: list[Demand]) -> int:
    uses = 0
    for demand in demands:
        uses |= demand.use
    return sum(len(one.free) for one in capacity.classes if one.uses & uses)
