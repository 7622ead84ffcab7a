"""Suggestions: single changes that make a task fit, each tried on the placer."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, Inventory, Node
from launcher.core.model.nodeset import NodeName, fold, natural
from launcher.core.model.placement import Exclusion, Slice, UnavailableNodes
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.model.text import count
from launcher.core.placement.capacity import rank_order
from launcher.core.placement.constraints import DomainId, within_level
from launcher.core.placement.filters import NodeFilter
from launcher.core.placement.solver import GroupShortfall, fits

MAX_RUNS_TRIED = 6
"""How many runs are tried as the one that has to end; each costs a placement."""

MAX_RUNS_NAMED = 3
"""How many of these runs are suggested."""

MAX_KINDS_TRIED = 4
"""How many kinds of accelerators are tried, the most common first; each costs a placement."""

MAX_NODES_PRUNED = 40
"""How many nodes are left out one at a time to see which are needed."""

SUGGESTION_WORK = 40_000
"""Limit of the full search for one suggestion: a tenth of that for a placement."""

_DOMAIN = "let `nvlaunch doctor` read the NVLink domain of `{}`, or set `domain`"

_Situation = tuple[Inventory, UnavailableNodes]


def suggest(
    found: GroupShortfall, task: Task, inventory: Inventory, unavailable: UnavailableNodes, kept: Sequence[Slice] = ()
) -> tuple[str, ...]:
    """Return each change that alone makes the task fit, the operator's first."""
    problem = _Problem(found, task, inventory, unavailable, kept)
    return (
        *_restored(problem, Exclusion.DRAINED, _undrain, "undrain `{}`"),
        *_restored(problem, Exclusion.UNHEALTHY, _heal, "repair `{}` (unhealthy)"),
        *_restored(problem, Exclusion.NO_DOMAIN, _guess_domain, _DOMAIN),
        *_ended_runs(problem),
        *_relaxed_counts(problem.group, problem.fits_as, found.placed),
        *_relaxed_rules(problem.group, problem.fits_as),
        *_relaxed_names(problem.group, problem.fits_as),
        *_coarser_level(problem.group, inventory, problem.fits_as),
        *_relaxed_gpus(problem.group, inventory, problem.fits_as),
    )


class _Problem:
    """A task that does not fit.

    `free` counts the nodes in each domain that the next slice of `group` could use.
    """

    def __init__(
        self,
        found: GroupShortfall,
        task: Task,
        inventory: Inventory,
        unavailable: UnavailableNodes,
        kept: Sequence[Slice],
    ) -> None:
        self.task, self.inventory, self.unavailable, self.kept = task, inventory, unavailable, kept
        self.group, self.assigned, self._constraints = found.group, found.assigned, found.constraints
        rule = found.group.topology
        self.need = rule.nodes_per_slice + rule.spares
        self.missing = rule.slices - found.placed
        self.node_filter = NodeFilter(found.group, unavailable, found.assigned, found.constraints)
        self._level = within_level(rule)
        self.free: Counter[DomainId] = Counter()
        for node in inventory.nodes:
            if self.node_filter.exclusion(node) is None:
                self.free[self.domain_of(node)] += 1

    def domain_of(self, node: Node) -> DomainId:
        """Return the domain of a slice with this node."""
        return self._level.domain_of(node) or ("", None)

    def is_excluded(self, node: Node) -> bool:
        """Whether the rules of the task exclude a node, even if no other run used it."""
        return self._constraints.exclusion(node) not in (None, Exclusion.EXCLUSIVE)

    def fits(self, inventory: Inventory, unavailable: UnavailableNodes) -> bool:
        """Whether the task fits in another situation."""
        return fits(self.task, inventory, unavailable, self.kept, SUGGESTION_WORK)

    def fits_as(self, group: Group) -> bool:
        """Whether the task fits with this group in place of the one that does not fit."""
        task = replace(self.task, groups=tuple(group if own is self.group else own for own in self.task.groups))
        return fits(task, self.inventory, self.unavailable, self.kept, SUGGESTION_WORK)


def _undrain(problem: _Problem, names: AbstractSet[NodeName]) -> _Situation:
    unavailable = {
        name: replace(use, drained=None) if name in names else use for name, use in problem.unavailable.items()
    }
    return _change_nodes(problem.inventory, names, lambda node: replace(node, drained=None)), unavailable


def _heal(problem: _Problem, names: AbstractSet[NodeName]) -> _Situation:
    return problem.inventory, {
        name: replace(use, unhealthy=None) if name in names else use for name, use in problem.unavailable.items()
    }


def _guess_domain(problem: _Problem, names: AbstractSet[NodeName]) -> _Situation:
    """Return the situation in which nodes are in the NVLink domain of their rack."""
    nodes = sorted(problem.inventory.nodes, key=lambda node: node.domain or "")
    known = {node.rack: node.domain for node in nodes if node.domain}
    inventory = _change_nodes(
        problem.inventory, names, lambda node: replace(node, domain=known.get(node.rack, node.rack))
    )
    return inventory, problem.unavailable


def _change_nodes(inventory: Inventory, names: AbstractSet[NodeName], change: Callable[[Node], Node]) -> Inventory:
    return replace(inventory, nodes=tuple(change(node) if node.name in names else node for node in inventory.nodes))


def _restored(
    problem: _Problem,
    reason: Exclusion,
    restore: Callable[[_Problem, AbstractSet[NodeName]], _Situation],
    suggestion: str,
) -> Iterator[str]:
    """Return the suggestion to restore the fewest nodes that make the task fit."""
    excluded = {node.name for node in problem.inventory.nodes if problem.node_filter.exclusion(node) is reason}
    if not excluded:
        return
    inventory, unavailable = restore(problem, excluded)
    node_filter = NodeFilter(problem.group, unavailable, problem.assigned)
    usable = [node for node in inventory.nodes if node.name in excluded and node_filter.exclusion(node) is None]
    usable.sort(key=rank_order)
    few = _fewest_for_each_slice(problem, usable)
    if few and problem.fits(*restore(problem, few)):
        yield suggestion.format(fold(few))
        return
    needed = {node.name for node in usable}
    if not needed or not problem.fits(*restore(problem, needed)):
        return
    for node in usable[:MAX_NODES_PRUNED]:
        if problem.fits(*restore(problem, needed - {node.name})):
            needed.remove(node.name)
    yield suggestion.format(fold(needed))


def _fewest_for_each_slice(problem: _Problem, usable: Iterable[Node]) -> set[NodeName]:
    """Return the nodes that complete slices in the domains that need the fewest."""
    by_domain: dict[DomainId, list[NodeName]] = {}
    for node in usable:
        if not problem.is_excluded(node):
            by_domain.setdefault(problem.domain_of(node), []).append(node.name)
    options = [
        (problem.need - problem.free[domain], natural(domain[0]), names)
        for domain, names in by_domain.items()
        if 0 < problem.need - problem.free[domain] <= len(names)
    ]
    options.sort(key=lambda option: option[:2])
    return {name for missing, _, names in options[: problem.missing] for name in names[:missing]}


def _ended_runs(problem: _Problem) -> Iterator[str]:
    """Return the runs of which one has to end, or those that all have to end."""
    freed: dict[str, Counter[DomainId]] = {}
    for node in problem.inventory.nodes:
        if problem.node_filter.exclusion(node) is Exclusion.IN_USE and not problem.is_excluded(node):
            run = problem.unavailable[node.name].used_by or ""
            freed.setdefault(run, Counter())[problem.domain_of(node)] += 1
    singles = [run for run, gain in freed.items() if _slices_gained(problem, gain) >= problem.missing]
    singles.sort(key=lambda run: (freed[run].total(), natural(run)))
    named = 0
    for run in singles[:MAX_RUNS_TRIED]:
        if named < MAX_RUNS_NAMED and problem.fits(problem.inventory, _without_runs(problem.unavailable, {run})):
            named += 1
            yield f"wait until run `{run}` ends"
    runs = set() if named else _runs_together(problem, freed)
    if len(runs) > 1 and problem.fits(problem.inventory, _without_runs(problem.unavailable, runs)):
        yield f"wait until runs {', '.join(f'`{run}`' for run in sorted(runs, key=natural))} end"


def _slices_gained(problem: _Problem, gain: Mapping[DomainId, int]) -> int:
    """Return an upper bound on the slices that fit once these nodes are free too."""
    need, free = problem.need, problem.free
    return sum((free[domain] + nodes) // need - free[domain] // need for domain, nodes in gain.items())


def _runs_together(problem: _Problem, freed: Mapping[str, Counter[DomainId]]) -> set[str]:
    """Return runs whose end frees slices in the domains with the fewest runs."""
    options: list[tuple[int, DomainId, list[str]]] = []
    for domain in {domain for gain in freed.values() for domain in gain}:
        runs = [run for run in freed if freed[run][domain]]
        runs.sort(key=lambda run: (-freed[run][domain], natural(run)))
        free, ending = problem.free[domain], 0
        while free < problem.need and ending < len(runs):
            free += freed[runs[ending]][domain]
            ending += 1
        if free >= problem.need:
            options.append((ending, domain, runs[:ending]))
    options.sort(key=lambda option: (option[0], natural(option[1][0]), natural(option[1][1] or "")))
    return {run for _, _, runs in options[: problem.missing] for run in runs}


def _without_runs(unavailable: UnavailableNodes, runs: AbstractSet[str]) -> UnavailableNodes:
    return {name: use.without(runs) for name, use in unavailable.items()}


_Fits = Callable[[Group], bool]


def _relaxed_counts(group: Group, fits: _Fits, placed: int) -> Iterator[str]:
    rule = group.topology
    spares = _largest(0, rule.spares - 1, lambda n: fits(_with(group, replace(rule, spares=n))))
    if spares is not None:
        yield f"set `spares: {spares}`"
    shared = _largest(0, rule.spares_per_rack - 1, lambda n: fits(_with(group, replace(rule, spares_per_rack=n))))
    if shared is not None:
        yield f"set `spares_per_rack: {shared}`"
    size = _largest(1, rule.nodes_per_slice - 1, lambda n: fits(_with(group, replace(rule, nodes_per_slice=n))))
    if size is not None:
        yield f"use slices of at most {count(size, 'node')}"
    slices = _largest(1, rule.slices - 1, lambda n: fits(_with(group, replace(rule, slices=n))), placed)
    if slices is not None:
        yield f"use at most {count(slices, 'slice')}"


def _relaxed_rules(group: Group, fits: _Fits) -> Iterator[str]:
    rule = group.topology
    relaxed = (
        ("spread", rule.spread, replace(rule, spread=None)),
        ("spread_members", rule.spread_members, replace(rule, spread_members=None)),
        ("exclusive", rule.exclusive, replace(rule, exclusive=None)),
        ("near", rule.near, replace(rule, near=None)),
        ("apart_from", rule.apart_from, replace(rule, apart_from=None)),
    )
    for key, value, without in relaxed:
        if value is not None and fits(_with(group, without)):
            yield f"remove `{key}: {value}`"
    if rule.all_within is not None and fits(_with(group, replace(rule, all_within=None))):
        yield f"set `within: {rule.within}` instead of `[{rule.all_within}, {rule.within}]`"


def _relaxed_names(group: Group, fits: _Fits) -> Iterator[str]:
    rule = group.topology
    named = {"racks": rule.racks, "exclude_racks": rule.exclude_racks}
    named |= {"nodes": rule.only_nodes, "exclude_nodes": rule.exclude_nodes}
    keys = [key for key, value in named.items() if value]
    without = replace(rule, racks=(), exclude_racks=(), only_nodes=(), exclude_nodes=())
    if keys and fits(_with(group, without)):
        yield f"remove {' and '.join(f'`{key}`' for key in keys)}"


def _coarser_level(group: Group, inventory: Inventory, fits: _Fits) -> Iterator[str]:
    rule = group.topology
    if rule.spares_per_rack:
        return
    levels = [NODE_LEVEL, *reversed(inventory.levels), ANY_LEVEL]
    top = levels.index(rule.all_within) if rule.all_within in levels else len(levels)
    coarser = levels[levels.index(rule.within) + 1 : top] if rule.within in levels else []
    for level in coarser:
        if fits(_with(group, replace(rule, within=level))):
            yield f"set `within: {level}` instead of `{rule.within}`"
            return


def _relaxed_gpus(group: Group, inventory: Inventory, fits: _Fits) -> Iterator[str]:
    kinds = Counter((node.accelerator, min(node.gpus, group.gpus)) for node in inventory.nodes if group.gpus)
    common = sorted(kinds, key=lambda one: (-kinds[one], one[0] or "", one[1]))  # ties not by the order of the file
    for kind, gpus in common[:MAX_KINDS_TRIED]:
        wanted = replace(group, accelerator=kind or group.accelerator, gpus=gpus)
        if gpus and wanted != group and fits(wanted):
            yield f"request {_gpus(wanted)} per node instead of {_gpus(group)}"


def _gpus(group: Group) -> str:
    return f"`{group.accelerator}:{group.gpus}`" if group.accelerator else count(group.gpus, "GPU")


def _with(group: Group, rule: TopologyRule) -> Group:
    return replace(group, topology=rule)


def _largest(low: int, high: int, fits: Callable[[int], bool], guess: int | None = None) -> int | None:
    """Return the largest number that fits, by bisection that begins at a guess; None if none fits."""
    best, first = None, guess
    while low <= high:
        at = (low + high) // 2 if guess is None else min(max(guess, low), high)
        if fits(at):
            # A right guess is followed by a number that does not fit.
            best, low, guess = at, at + 1, at + 1 if guess == first else None
        else:
            high, guess = at - 1, None
    return best
