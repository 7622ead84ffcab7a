"""What the slices of a placement cost: their bandwidth, and the step time of groups with known traffic."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from launcher.core.model.inventory import GpuDriver, Inventory, Node
from launcher.core.model.placement import Slice, group_of
from launcher.core.model.task import Group, Task
from launcher.core.model.traffic import Collective, LinkSpeeds
from launcher.core.planner.bandwidth import PlacementCost, cost, pieces, slowest


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceCost:
    """The cost of one slice, and that of the same GPUs in one NVLink domain.

    `nodes` has the number of nodes in each NVLink domain, most first. The NVLink domain of `unknown` nodes is unknown,
    and each of them counts as a domain of its own: the slice may be faster.
    """

    nodes: tuple[int, ...]
    placed: PlacementCost
    in_domain: PlacementCost
    unknown: int = 0

    @property
    def straddles(self) -> bool:
        """Whether the slice is in several NVLink domains."""
        return len(self.nodes) > 1

    @property
    def speed(self) -> tuple[float, float]:
        """Return a sort key, slow slices first: the bandwidth of all-reduce, then that of all-to-all."""
        reached = self.placed.bandwidth
        return reached[Collective.ALL_REDUCE].ring, reached[Collective.ALL_TO_ALL].ring


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceCosts:
    """The cost of slices by key.

    A slice with fewer than two GPUs, or on nodes without real GPUs, has no cost. `unrated` are the slices in racks
    whose link speeds are unknown, `unpredicted` those of them with known traffic.
    """

    by_slice: Mapping[str, SliceCost] = field(default_factory=dict)
    unrated: tuple[str, ...] = ()
    unpredicted: tuple[str, ...] = ()


def slice_costs(task: Task, slices: Iterable[Slice], fleet: Inventory) -> SliceCosts:
    """Return the cost of each slice; `fleet` has the NVLink domains that are known."""
    nodes = {node.name: node for node in fleet.nodes}
    known: dict[tuple[object, ...], SliceCost] = {}
    found: dict[str, SliceCost] = {}
    unrated: list[str] = []
    for part in slices:
        group = task.group(part.group)
        members = [nodes[name] for name in part.nodes]
        if not _has_links(group, members):
            continue
        links = _links(members, fleet)
        if links is None:
            unrated.append(part.key)
            continue
        split, unknown = pieces(members), _unknown(members)
        key = (group.name, split, unknown, links)
        found[part.key] = known.get(key) or known.setdefault(key, slice_cost(group, split, links, unknown))
    return SliceCosts(
        by_slice=found,
        unrated=tuple(unrated),
        unpredicted=tuple(key for key in unrated if task.group(group_of(key)).traffic is not None),
    )


def slice_cost(group: Group, split: Sequence[int], links: LinkSpeeds, unknown: int = 0) -> SliceCost:
    """Return the cost of a slice of a group with GPUs, split into so many nodes in each NVLink domain."""
    gpus = [group.gpus * nodes for nodes in split]
    return SliceCost(
        nodes=tuple(split),
        placed=cost(gpus, links, group.traffic),
        in_domain=cost((sum(gpus),), links, group.traffic),
        unknown=unknown,
    )


def _has_links(group: Group, members: Sequence[Node]) -> bool:
    """Whether several real GPUs work together; those of a CPU node are only declared."""
    return group.gpus * len(members) > 1 and all(node.gpu_driver is not GpuDriver.NONE for node in members)


def _links(members: Sequence[Node], fleet: Inventory) -> LinkSpeeds | None:
    """Return the speeds of the slowest rack of a slice; None if those of a rack are unknown."""
    found = [fleet.link_speeds(rack) for rack in {node.rack for node in members}]
    known = [links for links in found if links is not None]
    return slowest(known) if len(known) == len(found) else None


def _unknown(members: Sequence[Node]) -> int:
    return 0 if len(members) == 1 else sum(node.domain is None for node in members)
