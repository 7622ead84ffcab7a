"""The members, gangs, slices and nodes of a run, looked up by name."""

from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

from launcher.core.model.inventory import Node, RackName
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Slice
from launcher.core.model.run import GangName, Member, MemberName, Run
from launcher.core.model.task import RecoveryPolicy

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class RunIndex:
    """A run by name. Every question takes constant time.

    `nodes` are all nodes that the run ever had, `slice_of` says for those that it has now to which slice they belong,
    as nodes or as spares. `racks` groups the nodes of the placement. `head_apart`: no node has the address of the
    inventory's machine for heads.
    """

    def __init__(self, run: Run) -> None:
        own = {group.name for group in run.task.groups if group.topology.nodes_of is None}
        self.nodes: dict[NodeName, Node] = {node.name: node for node in run.fleet.nodes}
        apart = run.fleet.head
        self.head_apart = apart is not None and all(node.access.address != apart.address for node in run.fleet.nodes)
        self.members: tuple[Member, ...] = tuple(run.members())
        self.by_name: dict[MemberName, Member] = {member.name: member for member in self.members}
        self.slices: dict[str, Slice] = {part.key: part for part in run.placement.slices}
        self.slice_of: dict[NodeName, Slice] = {
            name: part for part in run.placement.slices if part.group in own for name in (*part.nodes, *part.spares)
        }
        self._homes = {one.name: self.slices[self.node_owner(one).slice_key] for one in self.members}
        self.gangs: dict[MemberName, GangName] = {member.name: run.gang(member) for member in self.members}
        self.by_slice: dict[str, tuple[Member, ...]] = _grouped((one.slice_key, one) for one in self.members)
        self.by_gang: dict[GangName, tuple[Member, ...]] = _grouped((self.gangs[one.name], one) for one in self.members)
        self.racks: dict[RackName, tuple[NodeName, ...]] = _grouped(
            (self.nodes[name].rack, name) for name in run.placement.nodes
        )
        self._colocated: dict[MemberName, tuple[Member, ...]] = _grouped(
            (one.colocated_with or one.name, one)
            for one in sorted(self.members, key=lambda one: one.colocated_with is not None)
        )
        driven = {group.name for group in run.task.groups if group.driver is not None}
        self._drivers = {one.group: one for one in self.members if one.rank == 0 and one.group in driven}
        self._policies = {group.name: group.recovery for group in run.task.groups}
        pooling = {group.name for group in run.task.groups if group.topology.spares_per_rack}
        self._pools = _grouped((_pool(part), part) for part in run.placement.slices if part.group in pooling)

    def node_owner(self, member: Member) -> Member:
        """Return the member that owns a slot's node: itself, unless it is colocated."""
        return member if member.colocated_with is None else self.by_name[member.colocated_with]

    def colocated(self, member: Member) -> Sequence[Member]:
        """Return all members on the node of a slot, its owner first; they share a raylet."""
        return self._colocated[member.colocated_with or member.name]

    def shares_node(self, member: Member) -> bool:
        """Whether several gangs are on the node of a slot, so that one may restart alone."""
        return len({self.gangs[one.name] for one in self.colocated(member)}) > 1

    def driver(self, member: Member) -> Member | None:
        """Return the member whose rank is the driver of a group; None without a driver."""
        return self._drivers.get(member.group)

    def home(self, member: Member) -> Slice:
        """Return the slice whose nodes and spares can hold a slot: its node owner's."""
        return self._homes[member.name]

    def pool(self, part: Slice) -> Sequence[Slice]:
        """Return the slices that share their spares with a slice.

        They are of one group, in one place and domain.
        """
        return self._pools.get(_pool(part), (part,))

    def policy(self, member: Member) -> RecoveryPolicy:
        """Return how the group of a slot recovers."""
        return self._policies[member.group]

    def node_attempts(self, node: NodeName) -> int:
        """Return how often a node may be started again, by the policy of its group."""
        part = self.slice_of.get(node)
        return self._policies[part.group].node_attempts if part else 0


def index_of(run: Run) -> RunIndex:
    """Return the index of a run, made once for one task, placement and fleet.

    A run that is replaced with another `wanted` or `head_at` keeps it.
    """
    return _index(_Shape(run))


class _Shape:
    """A run, equal to every other that has the same task, placement and fleet."""

    __slots__ = ("run",)

    def __init__(self, run: Run) -> None:
        self.run = run

    def __hash__(self) -> int:
        return hash((id(self.run.task), id(self.run.placement), id(self.run.fleet)))

    def __eq__(self, other: object) -> bool:
        one, two = self.run, other.run if isinstance(other, _Shape) else None
        return two is not None and (one.task is two.task and one.placement is two.placement and one.fleet is two.fleet)


@lru_cache(maxsize=64)
def _index(shape: _Shape) -> RunIndex:
    return RunIndex(shape.run)


def _pool(part: Slice) -> tuple[str, str, str | None]:
    return part.group, part.place, part.domain


def _grouped(pairs: Iterable[tuple[_K, _V]]) -> dict[_K, tuple[_V, ...]]:
    found: dict[_K, list[_V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in found.items()}
