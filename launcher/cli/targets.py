"""Which ranks and nodes of a run a command line means."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from launcher.cli.output.console import refuse
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Slice
from launcher.core.model.record import Record
from launcher.core.model.run import Member, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A node of a run, and the rank that it holds; None: a spare."""

    node: NodeName
    member: Member | None

    @property
    def label(self) -> str:
        """Return how it is called in output: by its rank, or by its name."""
        return self.member.name if self.member else self.node


def holder(run: Run, record: Record, member: Member) -> NodeName:
    """Return the node that holds a slot, or will first."""
    slot = record.slots.get(member.name)
    return slot.node if slot else run.slice_of(member).nodes[member.slice_rank]


def members(run: Run, word: str | None) -> list[Member]:
    """Return the rank of that name or number, all without a word; SpecError for none and for several."""
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


def places(
    run: Run, record: Record, *, rank: str | None, part: str | None, node: str | None, every: bool
) -> tuple[Place, ...]:
    """Return what is meant: rank 0 where nothing is said. SpecError for what the run does not have, or two at once."""
    if sum((rank is not None, part is not None, node is not None, every)) > 1:
        refuse("`--rank`, `--slice`, `--node` and `--all` exclude each other", hint="leave all but one of them out")
    _check_placed(run)
    if node is not None:
        return (_on(run, record, node),)
    if part is not None:
        return _held(run, record, _of_slice(run, part))
    if every:
        return _held(run, record, run.members())
    return _held(run, record, members(run, rank) if rank is not None else [next(iter(run.members()))])


def _check_placed(run: Run) -> None:
    if not run.placement.slices:
        refuse(f"`{run.name}` waits for its turn: it has no rank yet", hint="`nvlaunch queue` says why")


def _held(run: Run, record: Record, wanted: Iterable[Member]) -> tuple[Place, ...]:
    return tuple(Place(node=holder(run, record, member), member=member) for member in wanted)


def _on(run: Run, record: Record, node: str) -> Place:
    if node not in run.placement.nodes:
        refuse(f"`{run.name}` has no node `{node}`", hint=f"`nvlaunch status {run.name}` lists its nodes")
    held = next((member for member in run.members() if holder(run, record, member) == node), None)
    return Place(node=NodeName(node), member=held)


def slice_named(run: Run, word: str, *, before: str = "") -> Slice:
    """Return the slice that is meant where only a slice can be; SpecError, with what could be written, for none."""
    _check_placed(run)
    meant = [part for part in run.placement.slices if word in _spellings(part)]
    if len(meant) != 1:
        known = ", ".join(f"`{before}{part.key}`" for part in run.placement.slices)
        what = "has no" if not meant else "has several groups with a"
        refuse(f"`{run.name}` {what} slice `{word}`", hint=f"write one of {known}")
    return meant[0]


def _of_slice(run: Run, word: str) -> list[Member]:
    key = slice_named(run, word).key
    return [member for member in run.members() if member.slice_key == key]


def _spellings(part: Slice) -> tuple[str, ...]:
    """Return how a slice may be called where only a slice can be meant: in full, or by its number."""
    return part.key, f"s{part.index}", str(part.index), f"{part.group}/{part.index}"


def _range(found: Sequence[Member]) -> str:
    last = {member.group: member.rank for member in found}
    return ", ".join(f"`{group}/0` to `{group}/{rank}`" for group, rank in last.items())
