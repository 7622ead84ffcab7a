"""Who belongs to whom in a run, looked up by name."""

from collections.abc import Sequence

from launcher.core.model.inventory import Node
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Slice
from launcher.core.model.run import GangName, Member, MemberName, Run
from launcher.core.model.task import RecoveryPolicy


class Index:
    """The members, gangs and slices of a run, made once for a decision: nothing in it is looked for in a list."""

    def __init__(self, run: Run) -> None:
        self.nodes: dict[NodeName, Node] = {node.name: node for node in run.fleet.nodes}
        self.members: tuple[Member, ...] = tuple(run.members())
        self.parts: dict[str, Slice] = {part.key: part for part in run.placement.slices}
        guests = {group.name for group in run.task.groups if group.topology.nodes_of is not None}
        own = [part for part in run.placement.slices if part.group not in guests]
        self.kept: dict[NodeName, Slice] = {name: part for part in own for name in (*part.nodes, *part.spares)}
        self.by_name: dict[MemberName, Member] = {member.name: member for member in self.members}
        self.gangs: dict[MemberName, GangName] = {member.name: run.gang(member) for member in self.members}
        slices: dict[str, list[Member]] = {}
        gangs: dict[GangName, list[Member]] = {}
        for member in self.members:
            slices.setdefault(member.slice_key, []).append(member)
            gangs.setdefault(self.gangs[member.name], []).append(member)
        self.by_slice = {key: tuple(found) for key, found in slices.items()}
        self.by_gang = {name: tuple(found) for name, found in gangs.items()}
        self._crews: dict[MemberName, list[Member]] = {}
        for member in self.members if guests else ():
            if member.host is not None:
                self._crews.setdefault(member.host, [self.by_name[member.host]]).append(member)
        self._policies = {group.name: group.recovery for group in run.task.groups}

    def lead(self, member: Member) -> Member:
        """Return the member whose node a slot is on: itself, but for a guest."""
        return member if member.host is None else self.by_name[member.host]

    def crew(self, member: Member) -> Sequence[Member]:
        """Return all that sit on the node of a slot, the one whose node it is first: one raylet serves them."""
        lead = self.lead(member)
        return self._crews.get(lead.name) or (lead,)

    def mixed(self, member: Member) -> bool:
        """Whether members of several gangs sit on the node of a slot, so that one may start again alone."""
        return len({self.gangs[one.name] for one in self.crew(member)}) > 1

    def home(self, member: Member) -> Slice:
        """Return the slice that the node of a slot belongs to, with the spares that could take its place."""
        return self.parts[self.lead(member).slice_key]

    def policy(self, member: Member) -> RecoveryPolicy:
        """Return how the group of a slot recovers."""
        return self._policies[member.group]

    def node_attempts(self, node: NodeName) -> int:
        """Return how often a node may be started again, by the policy of the group that it serves or is kept for."""
        part = self.kept.get(node)
        return self._policies[part.group].node_attempts if part else 0
