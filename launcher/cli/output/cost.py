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
    """Return the bandwidth and the step time of slices; slices of a group with equal figures share a line.

    Placement cannot change the bandwidth of a slice of one node, so that is shown with `verbose` only.
    """
    spanning = slices if verbose else [part for part in slices if len(part.nodes) > 1]
    for names, text in _folded(spanning, costs, lambda cost: f"{_place(cost)}, {_bandwidth(cost, verbose=verbose)}"):
        yield clean(f"  {names}: {text}")
    for names, text in _folded(slices, costs, _step):
        yield clean(f"  {names}: {text}")
    if unknown := costs.unrated if verbose else costs.unpredicted:
        yield clean(f"  {fold(unknown)}: bandwidth unknown; the inventory has no `nvlink_gb_s` for this kind of GPU")


def straddling_lines(found: Iterable[Straddling]) -> Iterator[str]:
    """Return what slices across racks would cost a refused group."""
    for one in found:
        keys = f"`within: {one.within}`" + (f" and `balance: {one.balance}`" if one.balance else "")
        pieces = f"{_split(one.cost)} nodes"
        if one.slices > 1:
            pieces = f"{one.straddle} of {one.slices} slices across racks, the slowest on {pieces}"
        yield clean(f"  with {keys}, {pieces}: {_bandwidth(one.cost)}{_step_limit(one.cost)}")


def compare_text(choices: Sequence[PlanChoice], *, verbose: bool) -> str:
    """Return a table of choices: pieces, bandwidth and step time, or why the task does not fit."""
    shown = _LONG if verbose else _SHORT
    names = (collective.value.replace("_", "-").upper() for collective in shown.values())
    header = ("WITHIN", "RESULT", "SLICES", "NODES", *names, "STEP", "REASON")
    text = table(header, [row for choice in choices for row in _rows(choice, tuple(shown.values()))])
    costs = [cost for choice in choices for cost in choice.costs.by_slice.values()]
    notes = ["bandwidth in GB/s per GPU"] if costs else []
    notes += [f"step is {_LIMIT}"] if any(cost.placed.step for cost in costs) else []
    return "\n".join((text, *notes))


def _rows(choice: PlanChoice, shown: Sequence[Collective]) -> Iterator[tuple[str, ...]]:
    """Return a row for all slices of a group with equal figures, or one for a refusal."""
    unknown = ("",) * (len(shown) + 2)
    if choice.placement is None:
        yield choice.within, "does not fit", "", *unknown, choice.reason or ""
        return
    same: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for part in choice.compared:
        cost = choice.costs.by_slice.get(part.key)
        columns = unknown if cost is None else _columns(cost, shown)
        same.setdefault((part.group, columns), []).append(part.key)
    for (_, columns), keys in same.items():
        yield choice.within, "fits", fold(keys), *columns, "" if any(columns) else "bandwidth unknown"


def _columns(cost: SliceCost, shown: Sequence[Collective]) -> tuple[str, ...]:
    figures = (_range(cost.placed.bandwidth[collective]) for collective in shown)
    return _split(cost), *figures, _step_range(cost.placed)


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
    """Return what collectives reach on a slice, and in one NVLink domain if that is more."""
    shown = (_LONG if verbose else _SHORT).items()
    figures = (
        f"{name} {_range(cost.placed.bandwidth[collective])}{_instead(cost, collective)}" for name, collective in shown
    )
    return f"{', '.join(figures)} GB/s"


def _instead(cost: SliceCost, collective: Collective) -> str:
    placed, best = (_range(one.bandwidth[collective]) for one in (cost.placed, cost.in_domain))
    return "" if placed == best else f" instead of {best}"


def _place(cost: SliceCost) -> str:
    if not cost.straddles:
        return "1 node" if cost.nodes == (1,) else f"{cost.nodes[0]} nodes in one NVLink domain"
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
    return f"predicted step {_step_figures(cost)}, {_LIMIT}" if cost.placed.step else ""


def _step_figures(cost: SliceCost) -> str:
    placed, best = _step_range(cost.placed), _step_range(cost.in_domain)
    return placed if placed == best else f"{placed} instead of {best}"


def _step_limit(cost: SliceCost) -> str:
    placed, best = cost.placed.step, cost.in_domain.step
    if placed is None or best is None:
        return ""
    return (
        f", step at most {_interval(placed.ring_s, placed.ring_s)} instead of {_interval(best.ring_s, best.ring_s)} s"
    )


def _step_range(cost: PlacementCost) -> str:
    """Return the time of a step with the bound of the bandwidth and with a ring; empty where it is unknown."""
    return f"{_interval(cost.step.bound_s, cost.step.ring_s)} s" if cost.step else ""


def _range(reached: BusBandwidth) -> str:
    """Return what a collective reaches with a ring and at most (GB/s)."""
    return _interval(reached.ring, reached.bound)


def _interval(low: float, high: float) -> str:
    """Return two figures with three digits, as one where they are alike."""
    texts = [f"{value:.0f}" if value >= 100 else f"{value:.3g}" for value in (low, high)]
    return " to ".join(dict.fromkeys(texts))
