"""Node selection: how many nodes of which classes a slice takes in its domain.

A slice takes nodes of few classes and of partly used NVLink domains first, and spreads or balances them where the rule
asks for it. `fill` is the rule of Kueue's BestFit: largest first, and a tight fit for the last one.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TypeVar

from launcher.core.model.nodeset import natural
from launcher.core.placement.capacity import Demand, NodeClass

_T = TypeVar("_T")

Selection = list[tuple[NodeClass, int]]
"""Node classes, each with the number of nodes to take of it."""


def select_nodes(classes: Sequence[NodeClass], demand: Demand, need: int, slices: int) -> Selection:
    """Return the nodes that a slice takes of classes with enough free nodes.

    At most `slices` slices go to these classes. The selection has fewer than `need` nodes if `spread` and
    `spread_members` together rule out more.
    """
    if demand.spread is not None:
        classes = _few_spread_domains(classes, demand, need)
    if demand.spread_members is not None:
        return _one_per_domain(classes, demand, need, slices)
    if demand.rule.balance is not None:
        return _balanced(classes, demand, need)
    return partly_used_first(classes, demand, need)


def partly_used_first(classes: Sequence[NodeClass], demand: Demand, need: int) -> Selection:
    """Return `need` nodes in few classes, of partly used NVLink domains first.

    Nodes with the fewest idle GPUs come before that.
    """
    selection: Selection = []
    missing = need
    ordered = sorted(classes, key=lambda one: _waste(one, demand))
    for _, equal in groupby(ordered, key=lambda one: _waste(one, demand)):
        stock = [(one, len(one.free)) for one in equal]
        selection += fill(stock, min(missing, sum(size for _, size in stock)))
        missing = need - sum(count for _, count in selection)
    return selection


def by_domain_name(classes: Iterable[NodeClass], level: str) -> dict[str, list[NodeClass]]:
    """Return the classes of each domain at a level, in natural order of the names."""
    found: dict[str, list[NodeClass]] = {}
    for one in classes:
        found.setdefault(one.at(level) or "", []).append(one)
    return {name: found[name] for name in sorted(found, key=natural)}


def usable_nodes(classes: Iterable[NodeClass], demand: Demand) -> int:
    """Return how many nodes of these classes one slice can use."""
    if demand.spread_members is None:
        return sum(len(one.free) for one in classes)
    return len({one.at(demand.spread_members) for one in classes if one.free})


def max_spread_slices(sizes: Iterable[int], need: int) -> int:
    """Return how many slices fit that take one node of each domain at most.

    By the theorem of Gale and Ryser. `sizes` are the free nodes of the domains, `need` the nodes of a slice.
    """
    sizes = list(sizes)
    most = sum(sizes) // need
    while most and sum(min(size, most) for size in sizes) < most * need:
        most -= 1
    return most


def fill(stock: Sequence[tuple[_T, int]], need: int) -> list[tuple[_T, int]]:
    """Return how much of which item to take: few items, the last one tightest.

    The stock must hold `need`. Ties go by the order of the stock.
    """
    left = sorted(stock, key=lambda item: -item[1])
    chosen: list[tuple[_T, int]] = []
    while need:
        fits = [item for item in left if item[1] >= need]
        if fits:
            tightest = min(fits, key=lambda item: item[1])
            return [*chosen, (tightest[0], need)]
        chosen.append(left.pop(0))
        need -= chosen[-1][1]
    return chosen


def split_evenly(stock: Sequence[tuple[str, int]], need: int) -> list[tuple[str, int]]:
    """Return an even split of `need` over as few items as possible.

    The stock must hold `need`. Ties go by the order of the stock.
    """
    largest = sorted(stock, key=lambda item: -item[1])
    pieces = next(count for count in range(1, len(stock) + 1) if sum(size for _, size in largest[:count]) >= need)
    able = [item for item in stock if item[1] >= -(-need // pieces)]
    chosen = able[:pieces] if len(able) >= pieces else largest[:pieces]
    shares: list[tuple[str, int]] = []
    for at, (value, size) in enumerate(sorted(chosen, key=lambda item: item[1])):
        shares.append((value, min(size, need // (pieces - at))))
        need -= shares[-1][1]
    return shares


def _waste(nodes: NodeClass, demand: Demand) -> tuple[int, bool]:
    """Return the cost of a node: idle GPUs, then an NVLink domain unused so far."""
    return nodes.node.gpus - demand.group.gpus, nodes.unused


def _few_spread_domains(classes: Sequence[NodeClass], demand: Demand, need: int) -> Sequence[NodeClass]:
    """Return the classes of the few `spread` domains that hold a slice."""
    domains = by_domain_name(classes, demand.spread or "")
    sizes = [(name, usable_nodes(own, demand)) for name, own in domains.items()]
    if len(sizes) == 1 or sum(size for _, size in sizes) < need:
        return classes
    return [one for name, _ in fill(sizes, need) for one in domains[name]]


def _one_per_domain(classes: Sequence[NodeClass], demand: Demand, need: int, slices: int) -> Selection:
    """Return one node of each of the domains with the most free nodes.

    More free nodes than slices to come do not count.
    """
    domains = by_domain_name([one for one in classes if one.free], demand.spread_members or "")
    free = {name: sum(len(one.free) for one in own) for name, own in domains.items()}

    def order(name: str) -> tuple[int, tuple[int, bool], int]:
        return -min(free[name], slices), min(_waste(one, demand) for one in domains[name]), free[name]

    chosen = sorted(domains, key=order)[:need]
    return [(min(domains[name], key=lambda one: (_waste(one, demand), len(one.free))), 1) for name in chosen]


def _balanced(classes: Sequence[NodeClass], demand: Demand, need: int) -> Selection:
    """Return an even split over as few domains of the `balance` level as possible."""
    domains = by_domain_name([one for one in classes if one.free], demand.rule.balance or "")
    sizes = {name: sum(len(one.free) for one in own) for name, own in domains.items()}
    waste = {name: max(_waste(one, demand) for one in own) for name, own in domains.items()}
    shares = split_evenly(sorted(sizes.items(), key=lambda item: (waste[item[0]], item[1])), need)
    return [part for name, count in shares for part in partly_used_first(domains[name], demand, count)]
