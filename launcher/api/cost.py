"""What a slice costs, as `plan -o json` writes it."""

from collections.abc import Mapping
from dataclasses import dataclass

from launcher.core.planner.bandwidth import BusBandwidth
from launcher.core.planner.placement_cost import SliceCost
from launcher.core.planner.straddle import Straddling


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """Predicted time of a step (s), without overlap of compute and communication: an upper limit.

    `ring` with what a ring reaches, `bound` with the upper bound of the bandwidth, `in_domain` in one NVLink domain.
    """

    ring: float
    bound: float
    in_domain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCost:
    """What a slice costs.

    `nodes` and `gpus` are the sizes of its pieces, one in each NVLink domain. `bandwidth` is what each collective
    reaches (GB/s per GPU), `in_domain` what it reaches in one domain. Nodes of `unknown_domains` count as a piece each.
    `step` is None without `traffic`.
    """

    nodes: tuple[int, ...]
    gpus: tuple[int, ...]
    bandwidth: Mapping[str, BusBandwidth]
    in_domain: Mapping[str, float]
    unknown_domains: int
    step: PlannedStep | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StraddlingChoice:
    """The slowest slice of a refused group with `within` a coarser level, and with `balance` if that is a level.

    Of all `slices` of the group so many `straddle` racks.
    """

    slice: str
    slices: int
    straddle: int
    within: str
    balance: str | None
    cost: PlannedCost


def describe_cost(cost: SliceCost) -> PlannedCost:
    """Return the cost of a slice for users."""
    placed, best = cost.placed, cost.in_domain
    return PlannedCost(
        nodes=cost.nodes,
        gpus=placed.pieces,
        bandwidth={collective.value: reached for collective, reached in placed.bandwidth.items()},
        in_domain={collective.value: reached.bound for collective, reached in best.bandwidth.items()},
        unknown_domains=cost.unknown,
        step=None
        if placed.step is None or best.step is None
        else PlannedStep(ring=placed.step.ring_s, bound=placed.step.bound_s, in_domain=best.step.bound_s),
    )


def describe_straddling(one: Straddling) -> StraddlingChoice:
    """Return what straddling racks costs, for users."""
    return StraddlingChoice(
        slice=one.slice,
        slices=one.slices,
        straddle=one.straddle,
        within=one.within,
        balance=one.balance,
        cost=describe_cost(one.cost),
    )
