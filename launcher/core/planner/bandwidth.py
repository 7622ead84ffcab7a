"""Bandwidth of a collective on a placement, and the step time that follows from it.

All bandwidths are bus bandwidths as nccl-tests counts them, in GB/s per GPU. A placement counts as its pieces: the GPUs
in each NVLink domain. Inside one piece the figure is a measured one. Across pieces two figures enclose it: what a ring
reaches, and a bound that no algorithm without reduction in the switches exceeds.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from launcher.core.model.inventory import Node
from launcher.core.model.traffic import Collective, LinkSpeeds, Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class BusBandwidth:
    """What a collective reaches (GB/s): at least about `ring`, at most `bound`. Inside one domain both are the same."""

    ring: float
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Predicted time of a step (s), with the ring figures and with the bounds.

    Communication is not overlapped with compute, so both are upper limits of their kind.
    """

    ring_s: float
    bound_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementCost:
    """The pieces of a placement, what each collective reaches on them, and the step time where traffic is known."""

    pieces: tuple[int, ...]
    bandwidth: Mapping[Collective, BusBandwidth]
    step: StepTime | None = None


def pieces(nodes: Iterable[Node]) -> tuple[int, ...]:
    """Return the number of nodes in each NVLink domain, most first; one of no known domain is a piece of its own."""
    found: Counter[tuple[str, str]] = Counter()
    for node in nodes:
        found[node.rack, f"domain {node.domain}" if node.domain is not None else f"node {node.name}"] += 1
    return tuple(sorted(found.values(), reverse=True))


def bandwidth(collective: Collective, split: Sequence[int], links: LinkSpeeds) -> BusBandwidth:
    """Return what a collective over all GPUs of a split reaches (GB/s); ValueError for an empty split.

    With n GPUs, B GB/s a GPU outside and the smallest piece g: a ring crosses each domain boundary with all links of
    the smallest piece (g*B); the bound counts only the data that must cross into that piece: g*B*2(n-1)/n for
    all-reduce, g*B*(n-1)/(n-g) for all-gather and reduce-scatter. In all-to-all each GPU of the smallest piece sends
    (n-g)/(n-1) of its data outside, so B*(n-1)/(n-g) is both. Never above the figure inside one domain.

    Source: published runs of NVIDIA's cluster readiness engine (16 GiB; NVLink between nodes on and off).
    """
    if not split or min(split) < 1:
        raise ValueError("a placement has at least one piece of at least one GPU")
    inside, total, least = links.inside(collective), sum(split), min(split)
    if len(split) == 1:
        return BusBandwidth(ring=inside, bound=inside)
    outside = (total - 1) / (total - least)
    ring = bound = least * links.network
    match collective:
        case Collective.ALL_TO_ALL:
            ring = bound = links.network * outside
        case Collective.ALL_REDUCE:
            bound *= 2 * (total - 1) / total
        case Collective.ALL_GATHER | Collective.REDUCE_SCATTER:
            bound *= outside
    return BusBandwidth(ring=min(inside, ring), bound=min(inside, bound))


def bus_gb(collective: Collective, buffer_gb: float, gpus: int) -> float:
    """Return the GB of a buffer as bus bandwidth counts them: nccl-tests' factor for a collective over so many GPUs.

    The buffer is the larger of input and output. Source: nccl-tests, doc/PERFORMANCE.md.
    """
    factor = 2 if collective is Collective.ALL_REDUCE else 1
    return buffer_gb * factor * (gpus - 1) / gpus


def step_time(traffic: Traffic, split: Sequence[int], links: LinkSpeeds) -> StepTime:
    """Return the predicted step time on a split: compute plus GB over bandwidth of each collective, nothing overlapped.

    It is an upper limit: a dense 15B model took 1.30 s in racks and 1.38 s without NVLink between nodes on GB200, 1.11
    and 1.40 s on GB300 (NVIDIA's cluster readiness engine), for most of its communication hides behind compute.
    """
    ring_s = bound_s = traffic.compute_s
    for collective in Collective:
        reached = bandwidth(collective, split, links)
        ring_s += traffic.gb(collective) / reached.ring
        bound_s += traffic.gb(collective) / reached.bound
    return StepTime(ring_s=ring_s, bound_s=bound_s)


def cost(split: Sequence[int], links: LinkSpeeds, traffic: Traffic | None = None) -> PlacementCost:
    """Return the bandwidth of every collective on a split, and the step time where traffic is known."""
    return PlacementCost(
        pieces=tuple(split),
        bandwidth={collective: bandwidth(collective, split, links) for collective in Collective},
        step=None if traffic is None else step_time(traffic, split, links),
    )


def slowest(links: Sequence[LinkSpeeds]) -> LinkSpeeds:
    """Return the speeds of a placement over racks of several: the least of each; ValueError for none."""
    if not links:
        raise ValueError("a placement has at least one rack")
    return LinkSpeeds(
        network=min(one.network for one in links),
        all_reduce=min(one.all_reduce for one in links),
        all_gather=min(one.all_gather for one in links),
        all_to_all=min(one.all_to_all for one in links),
    )


def best_split(free: Iterable[int], need: int) -> tuple[int, ...] | None:
    """Return the split of `need` nodes over domains with so many free ones that costs least; None where it has no room.

    The smallest piece decides, so it is as large as can be: the fewest domains that hold `need`, filled evenly.
    """
    largest = sorted((size for size in free if size > 0), reverse=True)
    used, room = 0, 0
    while room < need:
        if used == len(largest):
            return None
        room += largest[used]
        used += 1
    split: list[int] = []
    for left, size in zip(range(used, 0, -1), reversed(largest[:used]), strict=True):
        split.append(min(size, (need - sum(split)) // left))
    return tuple(reversed(split))
