"""Who belongs to whom in a run, looked up by name."""

from launcher.core.fleet import Node, NodeName
from launcher.core.placement import Slice
from launcher.core.run import Member, Run
from launcher.core.seat import GangName, MemberName
from launcher.core.task import RecoveryPolicy


class Index:
    """The members, gangs and slices of a run, made once for a decision: nothing in it is looked for in a list."""

    def __init__(self, run: Run) -> None:
        self.nodes: dict[NodeName, Node] = {node.name: node for node in run.fleet.nodes}
        self.members: tuple[Member, ...] = tuple(run.members())
        self.parts: dict[str, Slice] = {part.key: part for part in run.placement.slices}
        self.kept: dict[NodeName, Slice] = {
            name: part for part in run.placement.slices for name in (*part.nodes, *part.spares)
        }
        self.by_name: dict[MemberName, Member] = {member.name: member for member in self.members}
        self.gangs: dict[MemberName, GangName] = {member.name: run.gang(member) for member in self.members}
        slices: dict[str, list[Member]] = {}
        gangs: dict[GangName, list[Member]] = {}
        for member in self.members:
            slices.setdefault(member.slice_key, []).append(member)
            gangs.setdefault(self.gangs[member.name], []).append(member)
        self.by_slice = {key: tuple(found) for key, found in slices.items()}
        self.by_gang = {name: tuple(found) for name, found in gangs.items()}
        self._policies = {group.name: group.recovery for group in run.task.groups}

    def part(self, member: Member) -> Slice:
        """Answer the slice that a seat is in."""
        return self.parts[member.slice_key]

    def policy(self, member: Member) -> RecoveryPolicy:
        """Answer how the group of a seat recovers."""
        return self._policies[member.group]

    def attempts(self, node: NodeName) -> int:
        """Answer how often a node may be started again, by the policy of the group that it serves or is kept for."""
        part = self.kept.get(node)
        return self._policies[part.group].node_attempts if part else 0
