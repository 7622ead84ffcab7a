"""One suite for the `Nodes` port. Every adapter runs it, each with a harness of its own, so that none drifts.

A test module makes a class of it and gives it the fixture `harness`:

    class TestLocalNodes(NodesSuite):
        @pytest.fixture
        def harness(self, tmp_path): ...
"""

import io
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum
from typing import Protocol

import pytest

from launcher.core.model.actions import (
    Acquire,
    Join,
    Kill,
    Level,
    Park,
    PowerOff,
    PowerQuery,
    Prepare,
    Reason,
    Release,
    Reserve,
    Start,
    StartHead,
    Unit,
    Unreserve,
    Verify,
    Why,
)
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import (
    AgentReport,
    GroupState,
    Head,
    HeadSeen,
    Health,
    Phase,
    RankReport,
    Seen,
    Sighting,
)
from launcher.core.model.receipt import Answer, Result
from launcher.core.model.run import GangName, MemberName, Run, Slot, is_spare, spare_label
from launcher.errors import RemoteError
from launcher.ports import Command, LogName, Nodes, Stream

REASON = Reason(why=Why.START, message="the suite asks for it")
GANG = GangName("run")
GENERATION = 0
HEARD_S = 8.0
"""How lately those must have heard each other that are well (s)."""


class Program(Enum):
    """What the ranks of a run do: print their environment, then last for minutes, exit 0, or exit 3."""

    LASTS = "lasts"
    SUCCEEDS = "succeeds"
    FAILS = "fails"


class Harness(Protocol):
    """What an adapter must bring: a fleet of at least three nodes, all of one domain, and a way to wait.

    The fixture takes down at its end whatever its runs left.
    """

    @property
    def nodes(self) -> Nodes:
        """The adapter under test."""

    @property
    def has_gpus(self) -> bool:
        """Whether the nodes have GPUs and a driver that can be asked who computes on them."""

    def place(self, program: Program, *, crowded: bool = False) -> Run:
        """Answer a new run of one slice of two ranks and one spare, always on the same nodes; `crowded`: from now on a
        process that is none of ours computes on a GPU of the first."""

    def until(self, run: Run, holds: Callable[[Sighting], bool]) -> Sighting:
        """Look until what is seen holds, and answer it; fails with the last look after a time that is ample."""


class NodesSuite:
    """What every implementation of `Nodes` does."""

    def test_a_fresh_node_shows_nothing_of_the_run(self, harness: Harness) -> None:
        run = harness.place(Program.LASTS)
        seen = harness.nodes.look(run)
        assert set(seen.nodes) == {node.name for node in run.fleet.nodes}
        assert all(view == Seen() for view in seen.nodes.values())
        assert seen.head == HeadSeen()

    def test_a_claim_is_seen_and_may_be_repeated(self, harness: Harness) -> None:
        run = harness.place(Program.LASTS)
        node = run.placement.nodes[0]
        assert claim(harness, run, node).result is Result.DONE
        assert claim(harness, run, node).result is Result.DONE
        seen = harness.until(run, lambda seen: agent(seen, node) is not None)
        assert replace(agent(seen, node), head_bound=False) == AgentReport()  # nothing runs there that a head binds
        assert seen.nodes[run.placement.nodes[1]] == Seen()

    def test_a_lease_is_held_against_other_runs_until_it_is_let_go(self, harness: Harness) -> None:
        ours, theirs = harness.place(Program.LASTS), harness.place(Program.LASTS)
        node = ours.placement.nodes[0]
        claim(harness, ours, node)
        answer = claim(harness, theirs, node)
        assert answer.result is Result.HELD
        assert ours.id in answer.message
        assert harness.nodes.look(theirs).nodes[node] == Seen()
        assert release(harness, theirs, node).result is Result.KILLED
        assert agent(harness.nodes.look(ours), node) is not None
        assert release(harness, ours, node).result is Result.KILLED
        assert claim(harness, theirs, node).result is Result.DONE

    def test_setup_is_begun_by_prepare_and_its_end_is_seen(self, harness: Harness) -> None:
        run = harness.place(Program.LASTS)
        node = run.placement.nodes[0]
        claim(harness, run, node)
        assert prepare(harness, run, node, 0).result is Result.DONE
        seen = harness.until(run, lambda seen: setup(seen, node) is Phase.DONE)
        assert prepare(harness, run, node, 0).result is Result.DONE
        assert claim(harness, run, node).result is Result.DONE
        assert setup(harness.nodes.look(run), node) is Phase.DONE
        found = agent(seen, node)
        assert found is not None
        assert found.ray.phase is Phase.ABSENT

    def test_a_node_that_comes_back_to_its_run_is_prepared_again(self, harness: Harness) -> None:
        run = harness.place(Program.LASTS)
        node = run.placement.nodes[0]
        for _ in range(2):
            claim(harness, run, node)
            assert setup(harness.until(run, lambda seen: agent(seen, node) is not None), node) is Phase.ABSENT
            assert prepare(harness, run, node, 0).result is Result.DONE
            harness.until(run, lambda seen: setup(seen, node) is Phase.DONE)
            assert release(harness, run, node).result is Result.KILLED

    def test_what_needs_a_agent_fails_without_one(self, harness: Harness) -> None:
        run = harness.place(Program.LASTS)
        node = run.placement.nodes[0]
        assert prepare(harness, run, node, 0).result is Result.FAILED
        assert harness.nodes.look(run).nodes[node] == Seen()

    def test_a_kill_of_an_empty_node_kills_nothing_and_says_so(self, harness: Harness) -> None:
        run = harness.place(Program.LASTS)
        node = run.placement.nodes[0]
        assert kill(harness, run, node, Level.NODE).result is Result.KILLED
        assert release(harness, run, node).result is Result.KILLED

    def test_a_killed_node_is_free_to_start_on_once_no_stranger_computes_there(self, harness: Harness) -> None:
        run = harness.place(Program.LASTS, crowded=True)
        first, second = run.placement.nodes[:2]
        claim(harness, run, first)
        taken = kill(harness, run, first, Level.GENERATION, reused=True)
        assert (taken.result is Result.NOT_FREE) == harness.has_gpus
        assert "(pid " in taken.message or not harness.has_gpus
        assert kill(harness, run, second, Level.GENERATION, reused=True).result is Result.KILLED
        assert kill(harness, run, first, Level.GENERATION).result is Result.KILLED, "a node that is left"
        again = harness.place(Program.LASTS)
        assert kill(harness, again, first, Level.GENERATION, reused=True).result is Result.KILLED
        assert release(harness, run, first).result is Result.KILLED

    def test_a_command_runs_where_a_rank_will_and_needs_its_agent(self, harness: Harness) -> None:
        run = harness.place(Program.LASTS)
        node, member = run.placement.nodes[0], next(run.members()).name
        command = Command(token="look", argv=("env",), member=member, timeout=20.0)
        heard: dict[Stream, bytes] = {Stream.OUT: b"", Stream.ERR: b""}

        def hear(stream: Stream, part: bytes) -> None:
            heard[stream] += part

        with pytest.raises(RemoteError):
            harness.nodes.exec_command(run, node, command, hear)
        claim(harness, run, node)
        prepare(harness, run, node, 0)
        assert harness.nodes.exec_command(run, node, command, hear) == 0
        assert f"NVLAUNCH_RUN={run.name}" in heard[Stream.OUT].decode().splitlines()
        assert heard[Stream.ERR] == b""
        harness.nodes.stop_command(run, node, command)

    def test_a_file_comes_back(self, harness: Harness) -> None:
        run = harness.place(Program.LASTS)
        node = run.placement.nodes[0]
        claim(harness, run, node)
        parts: list[bytes] = []
        assert harness.nodes.fetch(run, node, "/etc/passwd", parts.append) == ()
        with tarfile.open(fileobj=io.BytesIO(b"".join(parts))) as archive:
            (entry,) = archive.getmembers()
            assert (entry.name, entry.isreg()) == ("passwd", True)
            assert entry.size > 0

    def test_a_node_says_how_it_is_and_not_when(self, harness: Harness) -> None:
        run = harness.place(Program.LASTS)
        node = run.placement.nodes[0]
        claim(harness, run, node)
        found = harness.nodes.inspect(run, node)
        assert isinstance(found, Health)
        assert (found.at, found.worst, found.hung) == (0.0, None, ())

    def test_power_is_switched_off_by_a_command_and_not_without_one(self, harness: Harness) -> None:
        run = harness.place(Program.LASTS)
        action = PowerOff(reason=REASON, node=run.placement.nodes[2])
        without = replace(run, fleet=replace(run.fleet, fence_command=None))
        assert harness.nodes.perform(without, action).result is Result.FAILED
        command = replace(run, fleet=replace(run.fleet, fence_command="true {node}"))
        assert harness.nodes.perform(command, action).result is Result.POWERED_OFF

    def test_whether_power_is_off_is_asked_by_a_command_and_not_without_one(self, harness: Harness) -> None:
        run = harness.place(Program.LASTS)
        action = PowerQuery(reason=REASON, node=run.placement.nodes[2])
        for query in (None, "false {node}"):  # a node that was never begun on is on
            asked = replace(run, fleet=replace(run.fleet, power_query=query))
            assert harness.nodes.perform(asked, action).result is Result.FAILED

    def test_a_run_from_its_claims_to_the_last_process(self, harness: Harness) -> None:
        run = harness.place(Program.LASTS)
        slots = bring_up(harness, run)
        check_bundles(harness, run, slots)
        start(harness, run, slots, 1)
        begun = harness.until(run, lambda seen: running(seen, slots, 1))
        start(harness, run, slots, 1)
        assert running(harness.nodes.look(run), slots, 1)
        assert all(len(reports(begun, slot)) == 1 for slot in slots)
        check_hearing(begun, slots)
        check_log(harness, run, slots[1])
        kill_rank_and_start_again(harness, run, slots)
        slots = kill_raylet_and_rejoin(harness, run, slots)
        hand_over_to_a_spare(harness, run, slots)
        take_down(harness, run)

    def test_exit_statuses_are_seen(self, harness: Harness) -> None:
        run = harness.place(Program.FAILS)
        slots = bring_up(harness, run)
        start(harness, run, slots, 1)
        seen = harness.until(run, lambda seen: all(ended(seen, slot, 1) for slot in slots))
        for slot in slots:
            (report,) = reports(seen, slot)
            assert (report.attempt, report.exit_code) == (1, 3)
            assert report.tail
        start(harness, run, slots, 1)
        assert not any(report.running for slot in slots for report in reports(harness.nodes.look(run), slot))
        take_down(harness, run)

    def test_success_is_seen(self, harness: Harness) -> None:
        run = harness.place(Program.SUCCEEDS)
        slots = bring_up(harness, run)
        start(harness, run, slots, 1)
        seen = harness.until(run, lambda seen: all(ended(seen, slot, 1) for slot in slots))
        assert [report.exit_code for slot in slots for report in reports(seen, slot)] == [0, 0]
        take_down(harness, run)


def bring_up(harness: Harness, run: Run) -> tuple[Slot, ...]:
    """Take a run to where its ranks can start; answer its slots."""
    slots = tuple(
        Slot(member=member.name, node=node, generation=GENERATION)
        for member, node in zip(run.members(), run.placement.slices[0].nodes, strict=True)
    )
    for at, slot in enumerate(slots):
        assert claim(harness, run, slot.node).result is Result.DONE
        assert prepare(harness, run, slot.node, at).result is Result.DONE
    assert harness.nodes.perform(run, StartHead(reason=REASON)).result is Result.DONE
    harness.until(run, lambda seen: all(setup(seen, slot.node) is Phase.DONE for slot in slots))
    harness.until(run, lambda seen: head(seen).ready)
    assert harness.nodes.perform(run, StartHead(reason=REASON)).result is Result.DONE
    assert harness.nodes.perform(run, reserve(run)).result is Result.DONE
    harness.until(run, lambda seen: group_state(seen) is GroupState.PENDING)
    for slot in slots:
        join(harness, run, slot)
    seen = harness.until(run, lambda seen: group_state(seen) is GroupState.CREATED)
    assert harness.nodes.perform(run, reserve(run)).result is Result.DONE
    assert all(alive(seen, run, slot) for slot in slots)
    assert all(raylet(seen, slot) is Phase.RUNNING for slot in slots)
    return slots


def check_bundles(harness: Harness, run: Run, slots: tuple[Slot, ...]) -> None:
    """Check that Ray placed each bundle on its own slot, in the slice's domain."""
    answer = harness.nodes.perform(run, Verify(reason=REASON, slice=run.placement.slices[0].key))
    assert answer.result is Result.DONE
    found = [(bundle.index, bundle.slot, bundle.domain, bundle.generation) for bundle in answer.bundles]
    domain = run.placement.slices[0].domain
    assert found == [(at, label(run, slot), domain, slot.generation) for at, slot in enumerate(slots)]


def check_hearing(seen: Sighting, slots: tuple[Slot, ...]) -> None:
    """Check that head and slots hear each other."""
    assert all(head(seen).heard[slot.node] < HEARD_S for slot in slots)
    silences = [found.head_silent for slot in slots if (found := agent(seen, slot.node))]
    assert all(silent is not None and silent < HEARD_S for silent in silences)
    assert seen.reached == {}


def check_log(harness: Harness, run: Run, slot: Slot) -> None:
    """Check that a rank's log is there, in pieces and from its end."""
    name = LogName(member=slot.member, attempt=1)
    wanted = b"NVLAUNCH_NODE_RANK=1\n"
    harness.until(run, lambda _: wanted in harness.nodes.read_log(run, slot.node, name, 0).data)
    whole = harness.nodes.read_log(run, slot.node, name, 0)
    assert (whole.attempt, whole.next_offset) == (1, len(whole.data))
    rest = harness.nodes.read_log(run, slot.node, name, 5).data
    assert rest.startswith(whole.data[5:])
    newest = harness.nodes.read_log(run, slot.node, LogName(member=slot.member), -4)
    assert newest.attempt == 1
    assert newest.data
    beyond = harness.nodes.read_log(run, slot.node, LogName(member=slot.member, attempt=9), 0)
    assert (beyond.data, beyond.exists) == (b"", False)
    assert whole.exists


def kill_rank_and_start_again(harness: Harness, run: Run, slots: tuple[Slot, ...]) -> None:
    """Check that a rank is gone when its kill says so, that its raylet lives, and that a new attempt starts."""
    for slot in slots:
        answer = kill(harness, run, slot.node, Level.RANK, slot.member, attempt=1)
        assert answer.result is Result.KILLED
        assert not any(report.running for report in reports(harness.nodes.look(run), slot))
    seen = harness.nodes.look(run)
    assert all(raylet(seen, slot) is Phase.RUNNING for slot in slots)
    start(harness, run, slots, 2)
    harness.until(run, lambda seen: running(seen, slots, 2))
    old = kill(harness, run, slots[0].node, Level.RANK, slots[0].member, attempt=1)
    assert old.result is Result.KILLED
    assert running(harness.nodes.look(run), slots, 2)


def kill_raylet_and_rejoin(harness: Harness, run: Run, slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
    """Check that a killed raylet takes its rank along, that Ray notices, and that a new one heals the group.

    Answer the slots as they are then.
    """
    lost = slots[1]
    answer = kill(harness, run, lost.node, Level.GENERATION, lost.member, generation=GENERATION)
    assert answer.result is Result.KILLED
    seen = harness.until(run, lambda seen: raylet(seen, lost) is not Phase.RUNNING)
    assert not any(report.running for report in reports(seen, lost))
    harness.until(run, lambda seen: group_state(seen) is GroupState.RESCHEDULING)
    assert harness.nodes.perform(run, reserve(run)).result is Result.DONE
    assert group_state(harness.nodes.look(run)) is GroupState.RESCHEDULING
    healed = Slot(member=lost.member, node=lost.node, generation=GENERATION + 1)
    join(harness, run, healed)
    harness.until(run, lambda seen: group_state(seen) is GroupState.CREATED)
    check_bundles(harness, run, (slots[0], healed))
    return slots[0], healed


def hand_over_to_a_spare(harness: Harness, run: Run, slots: tuple[Slot, ...]) -> None:
    """Check that a spare which Ray holds takes no bundle, and takes one for its label once it is let go."""
    spare = Slot(
        member=slots[1].member,
        node=run.placement.slices[0].spares[0],
        generation=slots[1].generation + 1,
        spare=True,
    )
    name = spare_label(spare.generation)
    assert claim(harness, run, spare.node).result is Result.DONE
    assert prepare(harness, run, spare.node, 1).result is Result.DONE
    harness.until(run, lambda seen: setup(seen, spare.node) is Phase.DONE)
    join(harness, run, spare)
    harness.until(run, lambda seen: alive(seen, run, spare))
    for _ in range(2):
        assert harness.nodes.perform(run, Park(reason=REASON, slot=spare)).result is Result.DONE
    harness.until(run, lambda seen: state_of(seen, name) is GroupState.CREATED)
    assert harness.nodes.perform(run, unreserve(run)).result is Result.DONE
    harness.until(run, lambda seen: group_state(seen) in (None, GroupState.REMOVED))
    labels = (label(run, slots[0]), name)
    assert harness.nodes.perform(run, replace(reserve(run), labels=labels)).result is Result.DONE
    assert group_state(harness.nodes.look(run)) is GroupState.PENDING
    assert harness.nodes.perform(run, Unreserve(reason=REASON, slice=name)).result is Result.DONE
    harness.until(run, lambda seen: group_state(seen) is GroupState.CREATED)
    check_bundles(harness, run, (slots[0], spare))


def take_down(harness: Harness, run: Run) -> None:
    """Check that nothing is left of a run once its nodes and its head were let go."""
    assert harness.nodes.perform(run, unreserve(run)).result is Result.DONE
    harness.until(run, lambda seen: group_state(seen) in (None, GroupState.REMOVED))
    for node in run.placement.nodes:
        assert release(harness, run, node).result is Result.KILLED
    gone = Release(reason=REASON, node=run.head, unit=Unit.HEAD)
    assert harness.nodes.perform(run, gone).result is Result.KILLED
    assert harness.nodes.perform(run, gone).result is Result.KILLED
    empty = dict.fromkeys((node.name for node in run.fleet.nodes), Seen())
    harness.until(run, lambda seen: seen.nodes == empty and seen.head == HeadSeen())


def claim(harness: Harness, run: Run, node: NodeName) -> Answer:
    return harness.nodes.perform(run, Acquire(reason=REASON, node=node))


def release(harness: Harness, run: Run, node: NodeName) -> Answer:
    return harness.nodes.perform(run, Release(reason=REASON, node=node))


def prepare(harness: Harness, run: Run, node: NodeName, rank: int) -> Answer:
    member = list(run.members())[rank].name
    return harness.nodes.perform(run, Prepare(reason=REASON, node=node, member=member))


def join(harness: Harness, run: Run, slot: Slot) -> None:
    for _ in range(2):
        assert harness.nodes.perform(run, Join(reason=REASON, slot=slot)).result is Result.DONE


def reserve(run: Run) -> Reserve:
    return Reserve(reason=REASON, slice=run.placement.slices[0].key)


def unreserve(run: Run) -> Unreserve:
    return Unreserve(reason=REASON, slice=run.placement.slices[0].key)


def start(harness: Harness, run: Run, slots: tuple[Slot, ...], attempt: int) -> None:
    action = Start(reason=REASON, gang=GANG, attempt=attempt, restarts=attempt - 1, slots=slots)
    answer = harness.nodes.perform(run, action)
    assert answer.result is Result.DONE, answer


def kill(
    harness: Harness,
    run: Run,
    node: NodeName,
    level: Level,
    member: MemberName | None = None,
    *,
    attempt: int = 0,
    generation: int = 0,
    reused: bool = False,
) -> Answer:
    member = member or next(run.members()).name
    action = Kill(
        reason=REASON, node=node, level=level, member=member, gang=GANG, attempt=attempt, generation=generation
    )
    return harness.nodes.perform(run, replace(action, reused=reused))


def agent(seen: Sighting, node: NodeName) -> AgentReport | None:
    view = seen.nodes[node]
    return view.agent if isinstance(view, Seen) else None


def setup(seen: Sighting, node: NodeName) -> Phase:
    found = agent(seen, node)
    return found.setup.phase if found else Phase.ABSENT


def raylet(seen: Sighting, slot: Slot) -> Phase:
    found = agent(seen, slot.node)
    return found.ray.phase if found else Phase.ABSENT


def reports(seen: Sighting, slot: Slot) -> list[RankReport]:
    found = agent(seen, slot.node)
    return [report for report in found.ranks if report.member == slot.member] if found else []


def running(seen: Sighting, slots: Iterable[Slot], attempt: int) -> bool:
    return all(any(report.running and report.attempt == attempt for report in reports(seen, slot)) for slot in slots)


def ended(seen: Sighting, slot: Slot, attempt: int) -> bool:
    return any(not report.running and report.attempt == attempt for report in reports(seen, slot))


def head(seen: Sighting) -> Head:
    found = seen.head.head if isinstance(seen.head, HeadSeen) else None
    return found or Head()


def group_state(seen: Sighting) -> GroupState | None:
    """The state of the placement group of the only slice."""
    return next((report.state for report in head(seen).groups if not is_spare(report.slice)), None)


def state_of(seen: Sighting, name: str) -> GroupState | None:
    return next((report.state for report in head(seen).groups if report.slice == name), None)


def label(run: Run, slot: Slot) -> str:
    return next(slot.label(member) for member in run.members() if member.name == slot.member)


def alive(seen: Sighting, run: Run, slot: Slot) -> bool:
    wanted = (label(run, slot), slot.generation, True)
    return wanted in [(node.slot, node.generation, node.alive) for node in head(seen).nodes]
