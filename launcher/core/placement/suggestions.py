"""What would make a task fit, nearest first; every sentence was tried on the placer before it is said."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, Inventory, Node
from launcher.core.model.nodeset import NodeName, fold, natural
from launcher.core.model.placement import Exclusion, Placement, Slice, Taken
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.model.text import count
from launcher.core.placement.capacity import rank_order
from launcher.core.placement.constraints import Spot, within_scale
from launcher.core.placement.filters import Sieve
from launcher.core.placement.solver import Miss, assign

MAX_RUNS_TRIED = 6
"""How many runs are tried as the one that would have to end; each costs a placement."""

MAX_RUNS_NAMED = 3
"""How many of them are named: enough to choose from."""

WORK = 40_000
"""How much a search may do for one sentence: a tenth of what it may do for the answer."""

MAX_PRUNED = 40
"""How many mended nodes are dropped one at a time to see which are needed; each costs a placement."""

_Taken = Mapping[NodeName, Taken]
_World = tuple[Inventory, _Taken]


def changes(miss: Miss, task: Task, inventory: Inventory, taken: _Taken, kept: Sequence[Slice] = ()) -> tuple[str, ...]:
    """Return a sentence for each change that alone lets the task be placed: the operator's first, then the user's."""
    case = _Case(miss, task, inventory, taken, kept)

    def fits_as(group: Group) -> bool:
        groups = tuple(group if own is miss.group else own for own in task.groups)
        return isinstance(assign(replace(task, groups=groups), inventory, taken, kept, WORK), Placement)

    return (
        *_mended(case, Exclusion.DRAINED, _undrain, "undrain `{}`"),
        *_mended(case, Exclusion.SICK, _heal, "`{}` in service again, now sick"),
        *_mended(case, Exclusion.NO_DOMAIN, _learn, "the NVLink domain of `{}` known, if it is one a rack"),
        *_ended(case),
        *eased(miss.group, inventory, fits_as),
    )


class _Case:
    """A task that does not fit, and the room there is for one more slice of the group that missed."""

    def __init__(self, miss: Miss, task: Task, inventory: Inventory, taken: _Taken, kept: Sequence[Slice]) -> None:
        self.task, self.inventory, self.taken, self.kept = task, inventory, taken, kept
        self.group, self.promised, self._bounds = miss.group, miss.promised, miss.bounds
        rule = miss.group.topology
        self.need = rule.nodes_per_slice + rule.spares
        self.missing = rule.slices - miss.placed
        self.sieve = Sieve(miss.group, taken, miss.promised, miss.bounds)
        self._scale = within_scale(rule)
        self.room: Counter[Spot] = Counter()
        for node in inventory.nodes:
            if self.sieve.reason(node) is None:
                self.room[self.spot(node)] += 1

    def spot(self, node: Node) -> Spot:
        """Return where a slice with this node would have to stay."""
        return self._scale.spot(node) or ("", None)

    def barred(self, node: Node) -> bool:
        """Whether the rules of the task keep another slice off this node, whoever has it."""
        return self._bounds.reason(node) not in (None, Exclusion.SHARED)

    def fits(self, inventory: Inventory, taken: _Taken) -> bool:
        """Whether the task has a placement in another world."""
        return isinstance(assign(self.task, inventory, taken, self.kept, WORK), Placement)


def _undrain(case: _Case, names: AbstractSet[NodeName]) -> _World:
    taken = {name: replace(use, drained=None) if name in names else use for name, use in case.taken.items()}
    return _renew(case.inventory, names, lambda node: replace(node, drained=None)), taken


def _heal(case: _Case, names: AbstractSet[NodeName]) -> _World:
    return case.inventory, {
        name: replace(mark, sick=None) if name in names else mark for name, mark in case.taken.items()
    }


def _learn(case: _Case, names: AbstractSet[NodeName]) -> _World:
    """Return the world where nodes of unknown domain are in the domain of their rack, as racks mostly are wired."""
    known = {
        node.rack: node.domain for node in sorted(case.inventory.nodes, key=lambda n: n.domain or "") if node.domain
    }
    return _renew(case.inventory, names, lambda node: replace(node, domain=known.get(node.rack, node.rack))), case.taken


def _renew(inventory: Inventory, names: AbstractSet[NodeName], mend: Callable[[Node], Node]) -> Inventory:
    return replace(inventory, nodes=tuple(mend(node) if node.name in names else node for node in inventory.nodes))


def _mended(
    case: _Case, reason: Exclusion, mend: Callable[[_Case, AbstractSet[NodeName]], _World], sentence: str
) -> Iterator[str]:
    """Return the fewest nodes that would do if what keeps them out were mended."""
    broken = {node.name for node in case.inventory.nodes if case.sieve.reason(node) is reason}
    if not broken:
        return
    inventory, taken = mend(case, broken)
    sieve = Sieve(case.group, taken, case.promised)
    usable = [node for node in inventory.nodes if node.name in broken and sieve.reason(node) is None]
    usable.sort(key=rank_order)
    few = _nearest(case, usable)
    if few and case.fits(*mend(case, few)):
        yield sentence.format(fold(few))
        return
    needed = {node.name for node in usable}
    if not needed or not case.fits(*mend(case, needed)):
        return
    for node in usable[:MAX_PRUNED]:
        if case.fits(*mend(case, needed - {node.name})):
            needed.remove(node.name)
    yield sentence.format(fold(needed))


def _nearest(case: _Case, usable: Iterable[Node]) -> set[NodeName]:
    """Return the nodes that complete one slice in each of the places that lack the fewest."""
    by_spot: dict[Spot, list[NodeName]] = {}
    for node in usable:
        if not case.barred(node):
            by_spot.setdefault(case.spot(node), []).append(node.name)
    lacks = [
        (case.need - case.room[spot], natural(spot[0]), names)
        for spot, names in by_spot.items()
        if 0 < case.need - case.room[spot] <= len(names)
    ]
    lacks.sort(key=lambda item: item[:2])
    return {name for lack, _, names in lacks[: case.missing] for name in names[:lack]}


def _ended(case: _Case) -> Iterator[str]:
    """Return the runs of which one would have to end, the smallest first; else runs that would have to end together."""
    gains: dict[str, Counter[Spot]] = {}
    for node in case.inventory.nodes:
        if case.sieve.reason(node) is Exclusion.IN_USE and not case.barred(node):
            gains.setdefault(case.taken[node.name].by_run or "", Counter())[case.spot(node)] += 1
    singles = [run for run, gain in gains.items() if _slots_won(case, gain) >= case.missing]
    singles.sort(key=lambda run: (gains[run].total(), natural(run)))
    named = 0
    for run in singles[:MAX_RUNS_TRIED]:
        if named < MAX_RUNS_NAMED and case.fits(case.inventory, _without(case.taken, {run})):
            named += 1
            yield f"run `{run}` ends"
    together = set() if named else _together(case, gains)
    if len(together) > 1 and case.fits(case.inventory, _without(case.taken, together)):
        yield f"runs {', '.join(f'`{run}`' for run in sorted(together, key=natural))} end"


def _slots_won(case: _Case, gain: Mapping[Spot, int]) -> int:
    """Return at most how many more slices there is room for with these nodes back."""
    return sum((case.room[spot] + count) // case.need - case.room[spot] // case.need for spot, count in gain.items())


def _together(case: _Case, gains: Mapping[str, Counter[Spot]]) -> set[str]:
    """Return runs that make room for one slice in each of the places where the fewest of them do."""
    options: list[tuple[int, Spot, list[str]]] = []
    for spot in {spot for gain in gains.values() for spot in gain}:
        runs = sorted((run for run in gains if gains[run][spot]), key=lambda run: (-gains[run][spot], natural(run)))
        room, ending = case.room[spot], 0
        while room < case.need and ending < len(runs):
            room += gains[runs[ending]][spot]
            ending += 1
        if room >= case.need:
            options.append((ending, spot, runs[:ending]))
    options.sort(key=lambda option: (option[0], natural(option[1][0]), natural(option[1][1] or "")))
    return {run for _, _, runs in options[: case.missing] for run in runs}


def _without(taken: _Taken, runs: AbstractSet[str]) -> _Taken:
    return {name: replace(mark, by_run=None) if mark.by_run in runs else mark for name, mark in taken.items()}


_Fits = Callable[[Group], bool]


def eased(group: Group, inventory: Inventory, fits: _Fits) -> Iterator[str]:
    """Return a sentence for each single wish that, given up, lets the group be placed as `fits` tells."""
    yield from _counts(group, fits)
    yield from _rules(group, inventory, fits)
    if group.accelerator is not None and fits(replace(group, accelerator=None)):
        yield f"any accelerator instead of `{group.accelerator}`"
    fewer = max((node.gpus for node in inventory.nodes if node.gpus < group.gpus), default=0)
    if fewer and fits(replace(group, gpus=fewer)):
        yield f"{count(fewer, 'GPU')} on each node instead of {group.gpus}"


def _counts(group: Group, fits: _Fits) -> Iterator[str]:
    rule = group.topology
    spares = _most(0, rule.spares - 1, lambda n: fits(_with(group, replace(rule, spares=n))))
    if spares is not None:
        yield f"`spares: {spares}`"
    shared = _most(0, rule.spares_per_rack - 1, lambda n: fits(_with(group, replace(rule, spares_per_rack=n))))
    if shared is not None:
        yield f"`spares_per_rack: {shared}`"
    size = _most(1, rule.nodes_per_slice - 1, lambda n: fits(_with(group, replace(rule, nodes_per_slice=n))))
    if size is not None:
        yield f"slices of at most {count(size, 'node')}"
    slices = _most(1, rule.slices - 1, lambda n: fits(_with(group, replace(rule, slices=n))))
    if slices is not None:
        yield f"at most {count(slices, 'slice')}"


def _rules(group: Group, inventory: Inventory, fits: _Fits) -> Iterator[str]:
    rule = group.topology
    given_up = (
        ("spread", rule.spread, replace(rule, spread=None)),
        ("spread_members", rule.spread_members, replace(rule, spread_members=None)),
        ("exclusive", rule.exclusive, replace(rule, exclusive=None)),
        ("near", rule.near, replace(rule, near=None)),
        ("apart_from", rule.apart_from, replace(rule, apart_from=None)),
    )
    for key, value, without in given_up:
        if value is not None and fits(_with(group, without)):
            yield f"no `{key}: {value}`"
    if rule.all_within is not None and fits(_with(group, replace(rule, all_within=None))):
        yield f"`within: {rule.within}` instead of `[{rule.all_within}, {rule.within}]`"
    named = {"racks": rule.racks, "exclude_racks": rule.exclude_racks}
    named |= {"nodes": rule.only_nodes, "exclude_nodes": rule.exclude_nodes}
    filters = [key for key, value in named.items() if value]
    free = replace(rule, racks=(), exclude_racks=(), only_nodes=(), exclude_nodes=())
    if filters and fits(_with(group, free)):
        yield f"no {' and no '.join(f'`{name}`' for name in filters)}"
    if rule.spares_per_rack:
        return
    levels = [NODE_LEVEL, *reversed(inventory.levels), ANY_LEVEL]
    top = levels.index(rule.all_within) if rule.all_within in levels else len(levels)
    coarser = levels[levels.index(rule.within) + 1 : top] if rule.within in levels else []
    for level in coarser:
        if fits(_with(group, replace(rule, within=level))):
            yield f"`within: {level}` instead of `{rule.within}`"
            return


def _with(group: Group, rule: TopologyRule) -> Group:
    return replace(group, topology=rule)


def _most(low: int, high: int, fits: Callable[[int], bool]) -> int | None:
    """Return the largest number that fits, where a smaller one fits whenever a larger one does; None if none does."""
    best = None
    while low <= high:
        middle = (low + high) // 2
        if fits(middle):
            best, low = middle, middle + 1
        else:
            high = middle - 1
    return best
