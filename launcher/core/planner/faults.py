"""Faults of a fleet and their repair: published rates, what follows from them, and drawn timelines.

A tray is a node of 4 GPUs; rates are kept per GPU, so that nodes of 8 GPUs are covered too. Nothing here draws a random
number by itself: a source of uniform numbers in [0, 1) is passed in.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from launcher.core.model.inventory import Inventory, RackName
from launcher.core.model.nodeset import NodeName, natural
from launcher.core.model.text import count, seconds_of

Uniform = Callable[[], float]
"""A source of independent numbers, uniform in [0, 1)."""

DAY_S = 86_400.0
TRAY_GPUS = 4

UNEQUAL_SIGMA = 1.645
"""Spread (sigma of a lognormal) of the rates of trays with which 5 % of them cause half of the faults: the share of the
top p is Phi(sigma - z) with z the 1-p quantile, so sigma is the 95 % quantile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRate:
    """A measured rate of faults that interrupt a job, per GPU and day, and where it was published."""

    per_gpu_day: float
    source: str

    def per_day(self, gpus: int) -> float:
        """Return the faults a day of so many GPUs."""
        return self.per_gpu_day * gpus


PUBLISHED: Mapping[str, PublishedRate] = {
    "llama-3": PublishedRate(
        per_gpu_day=419 / (54 * 16_384),
        source="Llama 3 (arXiv 2407.21783): 419 unexpected interruptions in 54 days on 16,384 GPUs",
    ),
    "rsc-1": PublishedRate(
        per_gpu_day=6.50e-3 / 8, source="Meta RSC-1 (arXiv 2410.21680): 6.50e-3 a day and node of 8 GPUs"
    ),
    "rsc-2": PublishedRate(
        per_gpu_day=2.34e-3 / 8, source="Meta RSC-2 (arXiv 2410.21680): 2.34e-3 a day and node of 8 GPUs"
    ),
}
"""Rates by name; `llama-3` is the default."""


def rate_of(text: str, gpus_per_node: int) -> PublishedRate:
    """Return the rate of a published name, or of a mean time between faults of a node such as `500d`.

    ValueError, with a message for users, for other text.
    """
    if text in PUBLISHED:
        return PUBLISHED[text]
    seconds = seconds_of(text)
    if seconds is None:
        known = ", ".join(f"`{name}`" for name in PUBLISHED)
        raise ValueError(f"`{text}` is neither a published rate ({known}) nor a time between faults such as `500d`")
    if seconds < DAY_S / 24:
        raise ValueError(f"`{text}` between two faults of a node is less than an hour")
    days = seconds / DAY_S
    node = f"a node of {count(gpus_per_node, 'GPU')}"
    return PublishedRate(per_gpu_day=1 / (days * gpus_per_node), source=f"a fault every {days:g} days of {node}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lognormal:
    """A span of time: its median (s) and the sigma of its logarithm."""

    median_s: float
    sigma: float

    @property
    def mean_s(self) -> float:
        """Return the mean (s)."""
        return self.median_s * math.exp(self.sigma**2 / 2)

    def draw(self, uniform: Uniform) -> float:
        """Return a drawn span (s); takes two numbers of the source."""
        return self.median_s * math.exp(self.sigma * normal(uniform))


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A way to mend a tray: the share of faults that need it, and how long it takes."""

    name: str
    share: float
    time: Lognormal


REPAIRS = (
    Repair(name="reset", share=0.25, time=Lognormal(median_s=20 * 60, sigma=0.8)),
    Repair(name="reseat", share=0.35, time=Lognormal(median_s=8 * 3600, sigma=0.7)),
    Repair(name="swap", share=0.40, time=Lognormal(median_s=3 * DAY_S, sigma=0.9)),
)
"""Reset or reboot, reseat of the tray, exchange of the tray."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultModel:
    """How often nodes and racks of a fleet fail, how that is noticed, and how long a repair takes.

    `domain_share` of the faults (published: 5 to 10 %) interrupt every slice in the NVLink domain, of which one tray
    goes. `hang_share` of the faults are silent. `rack_out_days` is the mean time until a rack goes out for days,
    `maintenance_days` the time between two planned drains of a rack for its switch trays, None for never. No source
    gives a share of silent faults or a rhythm of maintenance: those two are assumptions.
    """

    rate: PublishedRate = PUBLISHED["llama-3"]
    domain_share: float = 0.075
    hang_share: float = 0.1
    unequal_sigma: float = UNEQUAL_SIGMA
    repairs: tuple[Repair, ...] = REPAIRS
    rack_out_days: float | None = 2 * 365.0
    rack_out: Lognormal = Lognormal(median_s=3 * DAY_S, sigma=0.9)
    maintenance_days: float | None = 90.0
    maintenance_s: tuple[float, float] = (3600.0, 4 * 3600.0)
    explicit_detection_s: tuple[float, float] = (30.0, 60.0)
    hang_detection_s: tuple[float, float] = (600.0, 900.0)

    @property
    def repair_s(self) -> float:
        """Return the mean time to repair a node (s)."""
        return sum(repair.share * repair.time.mean_s for repair in self.repairs)


def interruptions_per_day(model: FaultModel, gpus: int, domain_gpus: int | None = None) -> float:
    """Return how often a day a job on so many GPUs is interrupted by faults.

    `domain_gpus` are all GPUs of the NVLink domains it has a part in, its own counted: the faults of its neighbours
    there interrupt it too where they hit the whole domain. None: nobody else is there.
    """
    neighbours = max(0, (domain_gpus or gpus) - gpus)
    return model.rate.per_day(gpus) + model.domain_share * model.rate.per_day(neighbours)


def faults_per_week(model: FaultModel, gpus: int) -> float:
    """Return the expected faults of so many GPUs in 7 days."""
    return 7 * model.rate.per_day(gpus)


def days_to_fault(model: FaultModel, gpus: int) -> float:
    """Return the mean time to the first fault of so many GPUs (days). Source of the form: arXiv 2410.21680."""
    return 1 / model.rate.per_day(gpus)


def survival(model: FaultModel, gpus: int, days: float, domain_gpus: int | None = None) -> float:
    """Return the probability that a node or slice of so many GPUs is not interrupted for a time (days)."""
    return math.exp(-interruptions_per_day(model, gpus, domain_gpus) * days)


def share_down(model: FaultModel, gpus: int = TRAY_GPUS) -> float:
    """Return the expected share of nodes of so many GPUs that are in repair, whole racks that are out not counted."""
    down = model.rate.per_day(gpus) * model.repair_s / DAY_S
    return down / (1 + down)


def whole_domain(gpus: int, failed_share: float) -> float:
    """Return the probability (1-f)^n that no GPU of a domain has failed. Source: arXiv 2504.06095."""
    return float((1 - failed_share) ** gpus)


class OutageScope(Enum):
    """What an outage takes: a node; a node, with an interruption of its whole domain; a rack; a rack, as planned."""

    NODE = "node"
    DOMAIN = "domain"
    RACK = "rack"
    MAINTENANCE = "maintenance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """An outage `at_s` after the start, noticed `detection_s` later and repaired `repair_s` after that.

    `node` is None where the whole rack goes.
    """

    at_s: float
    rack: RackName
    node: NodeName | None
    scope: OutageScope
    detection_s: float
    repair_s: float

    @property
    def back_s(self) -> float:
        """Return when it is in service again (s after the start)."""
        return self.at_s + self.detection_s + self.repair_s


def draw_outages(inventory: Inventory, model: FaultModel, days: float, uniform: Uniform) -> tuple[Outage, ...]:
    """Return the drawn outages of a fleet over a time, in order. Equal numbers of the source give equal outages.

    Each node has its own rate; together they have the rate of the model. A node in repair does not fail.
    """
    nodes = sorted(inventory.nodes, key=lambda node: (natural(node.rack), natural(node.name)))
    weights = draw_weights(len(nodes), model.unequal_sigma, uniform)
    racks = tuple(dict.fromkeys(node.rack for node in nodes))
    end = days * DAY_S
    found: list[Outage] = []
    for node, weight in zip(nodes, weights, strict=True):
        found += _of_node(node.rack, node.name, model.rate.per_day(node.gpus) * weight, model, end, uniform)
    for rack in racks:
        found += _of_rack(rack, model, end, uniform)
    return tuple(sorted(found, key=lambda one: one.at_s))


def draw_weights(count: int, sigma: float, uniform: Uniform) -> Sequence[float]:
    """Return drawn factors of the rates of nodes, lognormal, with a mean of exactly 1."""
    drawn = [math.exp(sigma * normal(uniform)) for _ in range(count)]
    total = sum(drawn)
    return [count * one / total for one in drawn]


def _of_node(
    rack: RackName, node: NodeName, per_day: float, model: FaultModel, end: float, uniform: Uniform
) -> Iterator[Outage]:
    at = _wait(per_day, uniform)
    while at < end:
        detection = model.hang_detection_s if uniform() < model.hang_share else model.explicit_detection_s
        outage = Outage(
            at_s=at,
            rack=rack,
            node=node,
            scope=OutageScope.DOMAIN if uniform() < model.domain_share else OutageScope.NODE,
            detection_s=_between(detection, uniform),
            repair_s=_repair(model.repairs, uniform).draw(uniform),
        )
        yield outage
        at = outage.back_s + _wait(per_day, uniform)


def _of_rack(rack: RackName, model: FaultModel, end: float, uniform: Uniform) -> Iterator[Outage]:
    per_day = 0.0 if model.rack_out_days is None else 1 / model.rack_out_days
    at = _wait(per_day, uniform)
    while at < end:
        detection = _between(model.explicit_detection_s, uniform)
        outage = _rack_outage(at, rack, OutageScope.RACK, detection, model.rack_out.draw(uniform))
        yield outage
        at = outage.back_s + _wait(per_day, uniform)
    if model.maintenance_days is not None:
        at = uniform() * model.maintenance_days * DAY_S
        while at < end:
            yield _rack_outage(at, rack, OutageScope.MAINTENANCE, 0.0, _between(model.maintenance_s, uniform))
            at += model.maintenance_days * DAY_S


def _rack_outage(at: float, rack: RackName, scope: OutageScope, detection: float, repair: float) -> Outage:
    return Outage(at_s=at, rack=rack, node=None, scope=scope, detection_s=detection, repair_s=repair)


def _wait(per_day: float, uniform: Uniform) -> float:
    """Return a drawn time to the next fault (s); infinity without faults."""
    return exponential(DAY_S / per_day, uniform) if per_day > 0 else math.inf


def _repair(repairs: Sequence[Repair], uniform: Uniform) -> Lognormal:
    """Return the time of a drawn way to repair."""
    left = uniform()
    for repair in repairs:
        left -= repair.share
        if left < 0:
            return repair.time
    return repairs[-1].time  # shares that add up to a little less than 1


def exponential(mean: float, uniform: Uniform) -> float:
    """Return a drawn exponential number of this mean."""
    return -math.log1p(-uniform()) * mean


def normal(uniform: Uniform) -> float:
    """Return a drawn standard normal number (Box and Muller); takes two numbers of the source."""
    return math.sqrt(-2 * math.log1p(-uniform())) * math.cos(2 * math.pi * uniform())


def _between(bounds: tuple[float, float], uniform: Uniform) -> float:
    low, high = bounds
    return low + (high - low) * uniform()
