"""What slices cost, as text: bandwidth, and the predicted time of a step."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from launcher.admission.compare import PlanChoice
from launcher.cli.output.console import clean
from launcher.cli.output.table import table
from launcher.core.model.nodeset import fold
from launcher.core.model.placement import Slice
from launcher.core.model.text import count
from launcher.core.model.traffic import Collective
from launcher.core.planner.bandwidth import BusBandwidth, PlacementCost
from launcher.core.planner.placement_cost import SliceCost, SliceCosts
from launcher.core.planner.straddle import Straddling

MAX_SIZES = 4
"""How many sizes of pieces are written out."""

_LIMIT = "an upper limit: compute and communication do not overlap"
_SHORT = {"all-reduce": Collective.ALL_REDUCE, "all-to-all": Collective.ALL_TO_ALL}
_LONG = {
    "all-reduce": Collective.ALL_REDUCE,
    "all-gather and reduce-scatter": Collective.ALL_GATHER,
    "all-to-all": Collective.ALL_TO_ALL,
}


def cost_lines(slices: Sequence[Slice], costs: SliceCosts, *, verbose: bool) -> Iterator[str]:
    """Return the bandwidth and the step time of slices; slices of a group with equal figures share a line."""
    for names, text in _folded(slices, costs, lambda cost: _bandwidth(cost, verbose=verbose)):
        yield clean(f"  {names}: {text}")
    for names, text in _folded(slices, costs, _step):
        yield clean(f"  {names}: {text}")
    if costs.unrated and verbose:
        names = fold(costs.unrated)
        yield clean(f"  {names}: bandwidth unknown; the inventory has no `nvlink_gb_s` for this kind of GPU")


def straddling_lines(found: Iterable[Straddling]) -> Iterator[str]:
    """Return what slices across racks would cost a refused group."""
    for one in found:
        keys = f"`within: {one.within}`" + (f" and `balance: {one.balance}`" if one.balance else "")
        yield clean(f"  with {keys}, {one.slice}: {_bandwidth(one.cost)}")
        if step := _step(one.cost):
            yield clean(f"  with {keys}, {one.slice}: {step}")


def compare_text(choices: Sequence[PlanChoice], *, verbose: bool) -> str:
    """Return a table of choices: pieces, bandwidth and step time, or why the task does not fit."""
    shown = _LONG if verbose else _SHORT
    header = ("WITHIN", "SLICES", "NODES", *(name.upper() for name in shown), "STEP", "RESULT")
    text = table(header, [row for choice in choices for row in _rows(choice, tuple(shown.values()))])
    costs = [cost for choice in choices for cost in choice.costs.by_slice.values()]
    notes = ["bandwidth in GB/s per GPU"] if costs else []
    notes += [f"step is {_LIMIT}"] if any(cost.placed.step for cost in costs) else []
    return "\n".join((text, *notes))


def _rows(choice: PlanChoice, shown: Sequence[Collective]) -> Iterator[tuple[str, ...]]:
    """Return a row for all slices with equal figures, one for those without, or one for a refusal."""
    blank = ("",) * len(shown)
    if choice.placement is None:
        yield choice.within, "", "", *blank, "", f"does not fit: {choice.reason}"
        return
    same: dict[tuple[str, ...], list[str]] = {}
    for part in choice.compared:
        cost = choice.costs.by_slice.get(part.key)
        columns: tuple[str, ...] = ("", *blank, "", "fits; bandwidth unknown")
        if cost is not None:
            figures = (_range(cost.placed.bandwidth[collective]) for collective in shown)
            columns = (_split(cost), *figures, _step_range(cost.placed), "fits")
        same.setdefault((part.group, *columns), []).append(part.key)
    for (_, *columns), keys in same.items():
        yield choice.within, fold(keys), *columns


def _folded(
    slices: Sequence[Slice], costs: SliceCosts, text_of: Callable[[SliceCost], str]
) -> Iterator[tuple[str, str]]:
    """Return each text once, with the slices of a group that it is about."""
    same: dict[tuple[str, str], list[str]] = {}
    for part in slices:
        if part.key in costs.by_slice and (text := text_of(costs.by_slice[part.key])):
            same.setdefault((part.group, text), []).append(part.key)
    yield from ((fold(keys), text) for (_, text), keys in same.items())


def _bandwidth(cost: SliceCost, *, verbose: bool = False) -> str:
    """Return the pieces of a slice, and what it reaches with them."""
    figures = [
        f"{name} {_range(cost.placed.bandwidth[collective])}{_instead(cost, collective)} GB/s"
        for name, collective in (_LONG if verbose else _SHORT).items()
    ]
    return ", ".join((_place(cost), *figures))


def _instead(cost: SliceCost, collective: Collective) -> str:
    placed, best = (_range(one.bandwidth[collective]) for one in (cost.placed, cost.in_domain))
    return "" if placed == best else f" instead of {best}"


def _place(cost: SliceCost) -> str:
    if not cost.straddles:
        return f"{count(cost.nodes[0], 'node')} in one NVLink domain"
    if cost.unknown:
        return f"{_split(cost)} nodes, as the NVLink domain of {count(cost.unknown, 'node')} is unknown"
    return f"{_split(cost)} nodes in {len(cost.nodes)} NVLink domains"


def _split(cost: SliceCost) -> str:
    """Return the pieces in nodes: `15 + 1`, `3 x 18 + 10`."""
    sizes = Counter(cost.nodes)
    if len(sizes) > MAX_SIZES:
        return f"{len(cost.nodes)} pieces of {max(sizes)} to {min(sizes)}"
    return " + ".join(f"{number} x {size}" if number > 1 else str(size) for size, number in sizes.items())


def _step(cost: SliceCost) -> str:
    """Return the predicted time of a step; empty where the traffic is unknown."""
    placed, best = _step_range(cost.placed), _step_range(cost.in_domain)
    if not placed:
        return ""
    instead = "" if placed == best else f" instead of {best}"
    return f"predicted step {placed}{instead}, {_LIMIT}"


def _step_range(cost: PlacementCost) -> str:
    if cost.step is None:
        return ""
    fast, slow = _number(cost.step.bound_s), _number(cost.step.ring_s)
    return f"{fast} s" if fast == slow else f"{fast} to {slow} s"


def _range(reached: BusBandwidth) -> str:
    """Return what a collective reaches, by a ring and at most (GB/s)."""
    low, high = _number(reached.ring), _number(reached.bound)
    return low if low == high else f"{low} to {high}"


def _number(value: float) -> str:
    """Return a figure with about three digits; whole from 10 on for bandwidth, two decimals for seconds."""
    return f"{value:.0f}" if value >= 10 else f"{value:.3g}"
