"""Ranks, slices and nodes of a run, by the names that users give them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Slice
from launcher.core.model.record import Record
from launcher.core.model.run import Member, Run
from launcher.core.model.run_index import index_of
from launcher.errors import refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTarget:
    """A node of a run, and the rank on it; None for a spare."""

    node: NodeName
    member: Member | None

    @property
    def label(self) -> str:
        """Return the label for output: the rank, else the node."""
        return self.member.name if self.member else self.node


def holder(run: Run, record: Record, member: Member) -> NodeName:
    """Return the node of a rank.

    The current one, or the first one where none has it yet.
    """
    slot = record.slots.get(member.name)
    return slot.node if slot else index_of(run).slices[member.slice_key].nodes[member.slice_rank]


def members(run: Run, word: str | None) -> list[Member]:
    """Return the rank with this name or number, all for None.

    SpecError for an unknown or ambiguous one.
    """
    found = list(run.members())
    if word is None:
        return found
    meant = [member for member in found if word in (member.name, str(member.rank))]
    if not meant:
        refuse(f"`{run.name}` has no rank `{word}`", hint=f"its ranks are {_range(found)}")
    if len(meant) > 1:
        names = ", ".join(f"`{member.name}`" for member in meant)
        refuse(f"rank `{word}` is in several groups", hint=f"write one of {names}")
    return meant


def targets(
    run: Run, record: Record, *, rank: str | None, part: str | None, node: str | None, every: bool
) -> tuple[NodeTarget, ...]:
    """Return the chosen targets, by default rank 0.

    SpecError for unknown ones, and for more than one choice.
    """
    if sum((rank is not None, part is not None, node is not None, every)) > 1:
        refuse("`--rank`, `--slice`, `--node` and `--all` exclude each other", hint="use one of them")
    _check_placed(run)
    if node is not None:
        return (_on(run, record, node),)
    if part is not None:
        return _of_members(run, record, _of_slice(run, part))
    if every:
        return _of_members(run, record, run.members())
    return _of_members(run, record, members(run, rank) if rank is not None else [next(iter(run.members()))])


def slice_named(run: Run, word: str, *, before: str = "") -> Slice:
    """Return the slice with this name or number.

    SpecError, with the known ones after `before`, for none.
    """
    _check_placed(run)
    meant = [part for part in run.placement.slices if word in _spellings(part)]
    if len(meant) != 1:
        known = ", ".join(f"`{before}{part.key}`" for part in run.placement.slices)
        what = "has no" if not meant else "has several groups with a"
        refuse(f"`{run.name}` {what} slice `{word}`", hint=f"write one of {known}")
    return meant[0]


def check_not_ended(run: Run, *, ended: bool) -> None:
    """Raise SpecError where a run has ended, for its nodes may be used by others."""
    if ended:
        refuse(f"run `{run.name}` has ended; its nodes were released", hint="`nvlaunch logs` still works")


def _check_placed(run: Run) -> None:
    if not run.placement.slices:
        refuse(f"`{run.name}` is queued: it has no ranks yet", hint="`nvlaunch queue` shows why")


def _of_members(run: Run, record: Record, wanted: Iterable[Member]) -> tuple[NodeTarget, ...]:
    return tuple(NodeTarget(node=holder(run, record, member), member=member) for member in wanted)


def _on(run: Run, record: Record, node: str) -> NodeTarget:
    check_node(run, node)
    held = next((member for member in run.members() if holder(run, record, member) == node), None)
    return NodeTarget(node=NodeName(node), member=held)


def check_node(run: Run, node: str) -> None:
    """Raise SpecError where a node is not one of the run."""
    if node not in run.placement.nodes:
        refuse(f"`{run.name}` has no node `{node}`", hint=f"`nvlaunch status {run.name}` lists its nodes")


def _of_slice(run: Run, word: str) -> list[Member]:
    key = slice_named(run, word).key
    return [member for member in run.members() if member.slice_key == key]


def _spellings(part: Slice) -> tuple[str, ...]:
    """Return the names of a slice: in full, or its number."""
    return part.key, f"s{part.index}", str(part.index), f"{part.group}/{part.index}"


def _range(found: Sequence[Member]) -> str:
    last = {member.group: member.rank for member in found}
    return ", ".join(f"`{group}/0` to `{group}/{rank}`" for group, rank in last.items())
