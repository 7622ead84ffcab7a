"""What would make a task fit, nearest first; every sentence was tried on the placer before it is said."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from launcher.core.model.inventory import Inventory, Node, NodeName
from launcher.core.model.nodeset import fold, natural
from launcher.core.model.placement import Exclusion, Placement, Slice, Taken
from launcher.core.model.task import Group, Task
from launcher.core.placement.capacity import rank_order
from launcher.core.placement.constraints import Spot, within_scale
from launcher.core.placement.ease import eased
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
    """Answer a sentence for each change that alone lets the task be placed: the operator's first, then the user's."""
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
        """Answer where a slice with this node would have to stay."""
        return self._scale.spot(node) or ("", None)

    def barred(self, node: Node) -> bool:
        """Answer whether the rules of the task keep another slice off this node, whoever has it."""
        return self._bounds.reason(node) not in (None, Exclusion.SHARED)

    def fits(self, inventory: Inventory, taken: _Taken) -> bool:
        """Answer whether the task has a placement in another world."""
        return isinstance(assign(self.task, inventory, taken, self.kept, WORK), Placement)


def _undrain(case: _Case, names: AbstractSet[NodeName]) -> _World:
    taken = {name: replace(use, drained=None) if name in names else use for name, use in case.taken.items()}
    return _renew(case.inventory, names, lambda node: replace(node, drained=None)), taken


def _heal(case: _Case, names: AbstractSet[NodeName]) -> _World:
    return case.inventory, {
        name: replace(mark, sick=None) if name in names else mark for name, mark in case.taken.items()
    }


def _learn(case: _Case, names: AbstractSet[NodeName]) -> _World:
    """Answer the world where nodes of unknown domain are in the domain of their rack, as racks mostly are wired."""
    known = {
        node.rack: node.domain for node in sorted(case.inventory.nodes, key=lambda n: n.domain or "") if node.domain
    }
    return _renew(case.inventory, names, lambda node: replace(node, domain=known.get(node.rack, node.rack))), case.taken


def _renew(inventory: Inventory, names: AbstractSet[NodeName], mend: Callable[[Node], Node]) -> Inventory:
    return replace(inventory, nodes=tuple(mend(node) if node.name in names else node for node in inventory.nodes))


def _mended(
    case: _Case, reason: Exclusion, mend: Callable[[_Case, AbstractSet[NodeName]], _World], sentence: str
) -> Iterator[str]:
    """Answer the fewest nodes that would do if what keeps them out were mended."""
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
    """Answer the nodes that complete one slice in each of the places that lack the fewest."""
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
    """Answer the runs of which one would have to end, the smallest first; else runs that would have to end together."""
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
    """Answer at most how many more slices there is room for with these nodes back."""
    return sum((case.room[spot] + count) // case.need - case.room[spot] // case.need for spot, count in gain.items())


def _together(case: _Case, gains: Mapping[str, Counter[Spot]]) -> set[str]:
    """Answer runs that make room for one slice in each of the places where the fewest of them do."""
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
