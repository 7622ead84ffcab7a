"""More nodes for a run that goes on: claimed with it, asked before, not given twice, and free again when let go."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.admission.domains import guessed
from launcher.admission.reallocate import StoreAllotter
from launcher.config.inventory.read import read_inventory
from launcher.core.model.actions import AddSpare, Move, Reason, Relocate, ReturnSpare, Why
from launcher.core.model.move_order import MoveOrder, SliceNodes
from launcher.core.model.nodeset import NodeName
from launcher.core.model.receipt import Result
from launcher.core.model.record import Evidence, Record
from launcher.core.model.run import Cause, MemberName, Run, RunName, RunState, Slot
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.drive.adapters import open_prober
from launcher.probe.needs import NOTHING
from launcher.sim.prober import SimProber
from launcher.store.ledger import Drain
from launcher.store.store import Store
from launcher.store.stored_plan import PlanState, StoredPlan
from launcher.store.user import User

REASON = Reason(why=Why.REPLACE, message="a node is lost")
ENLIST = AddSpare(reason=REASON, slice="main.s0")


class Hall:
    """A store with one run of a slice of 2 and a spare in r1, and the allotter."""

    def __init__(self, folder: Path, *, racks: str, sim: str = "{seed: 1}", taken: int = 0) -> None:
        self.file = folder / "hall.yaml"
        self.write(racks, sim)
        self.store = Store(folder / "home")
        self.fleet = read_inventory(self.file)
        for at in range(taken):
            self.launch(f"other-{at}", TopologyRule(nodes_per_slice=1, racks=("r1",)))
        self.run = self.launch("job", TopologyRule(nodes_per_slice=2, spares=1, racks=("r1", "r2")))
        self.allotter = StoreAllotter(self.store, lambda fleet: open_prober(folder / "home", fleet))

    def write(self, racks: str, sim: str = "{seed: 1}") -> None:
        self.file.write_text(f"name: hall\ntransport: sim\nsim: {sim}\n{racks}\n")

    def launch(self, name: str, rule: TopologyRule) -> Run:
        task = Task(name=name, groups=(Group(name="main", topology=rule, gpus=4, run="true"),))
        return self.store.launch(
            name=RunName(name),
            task=task,
            fleet=self.fleet,
            decide=lambda taken: place(task, self.fleet, taken),
            source="task.yaml",
            at=1.0,
        )

    def keep(self, **changes: object) -> None:
        """The run's controller keeps a record."""
        self.store.intend(self.run.id, replace(Record(), **changes), (), "on", RunState.RUNNING, 5.0)

    def on(self, *nodes: str) -> dict[MemberName, Slot]:
        """Who holds the slots."""
        names = [MemberName(f"main/{rank}") for rank in range(len(nodes))]
        return {name: Slot(member=name, node=NodeName(node)) for name, node in zip(names, nodes, strict=True)}

    def claims(self) -> set[str]:
        return {name for name, use in self.store.unavailable(self.fleet).items() if use.used_by == "job"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


TWO_RACKS = 'racks: {r1: {nodes: "r1-n[1-4]"}, r2: {nodes: "r2-n[1-4]"}}'


def test_a_slice_gets_a_node_of_its_own_rack_and_the_run_and_its_claims_say_so(folder: Path) -> None:
    hall = Hall(folder, racks=TWO_RACKS)
    hall.keep(
        slots=hall.on("r1-n1", "r1-n3"), failed_nodes={NodeName("r1-n2"): Evidence(cause=Cause.NODE, message="Xid 79")}
    )
    answer = hall.allotter.add_spare(hall.run, ENLIST)
    assert (answer.result, answer.nodes) == (Result.DONE, ("r1-n4",))
    run, _ = hall.store.load(hall.run.id)
    assert run.placement.slices[0].spares == ("r1-n3", "r1-n4")
    assert {node.name for node in run.fleet.nodes} == {"r1-n1", "r1-n2", "r1-n3", "r1-n4"}
    assert hall.claims() == {"r1-n1", "r1-n2", "r1-n3", "r1-n4"}


def test_the_same_order_after_a_crash_gives_no_second_node(folder: Path) -> None:
    hall = Hall(folder, racks='racks: {r1: {nodes: "r1-n[1-6]"}}')
    hall.keep(slots=hall.on("r1-n1", "r1-n3"))
    assert hall.allotter.add_spare(hall.run, ENLIST).nodes == ("r1-n4",)
    assert hall.allotter.add_spare(hall.run, ENLIST).nodes == ("r1-n4",)
    hall.keep(slots=hall.on("r1-n4", "r1-n3"))
    assert hall.allotter.add_spare(hall.run, ENLIST).nodes == ("r1-n5",)


def test_a_node_that_is_given_back_leaves_the_run_and_the_one_with_the_slot_takes_its_place(folder: Path) -> None:
    hall = Hall(folder, racks='racks: {r1: {nodes: "r1-n[1-6]"}}')
    hall.keep(slots=hall.on("r1-n1", "r1-n3"))
    hall.allotter.add_spare(hall.run, ENLIST)
    back = ReturnSpare(reason=REASON, node=NodeName("r1-n2"))
    for _ in range(2):  # also where the first answer was lost
        assert hall.allotter.perform(hall.run, back).result is Result.DONE
        run, _ = hall.store.load(hall.run.id)
        (part,) = run.placement.slices
        assert (part.nodes, part.spares) == (("r1-n1", "r1-n3"), ("r1-n4",))
        assert hall.claims() == {"r1-n1", "r1-n3", "r1-n4"}
    held = hall.allotter.perform(hall.run, replace(back, node=NodeName("r1-n3")))
    assert (held.result, held.message) == (Result.FAILED, "`r1-n3` is in use")


def test_a_node_that_is_given_back_stays_claimed_while_anything_of_the_run_may_be_there(folder: Path) -> None:
    hall = Hall(folder, racks='racks: {r1: {nodes: "r1-n[1-6]"}}')
    hall.keep(slots=hall.on("r1-n1", "r1-n3"), requested={NodeName(name) for name in ("r1-n1", "r1-n2", "r1-n3")})
    hall.allotter.perform(hall.run, ReturnSpare(reason=REASON, node=NodeName("r1-n2")))
    assert "r1-n2" in hall.claims()
    hall.keep(slots=hall.on("r1-n1", "r1-n3"), requested={NodeName(name) for name in ("r1-n1", "r1-n3")})
    assert hall.claims() == {"r1-n1", "r1-n3"}


def test_no_node_of_another_rack_another_run_or_out_of_service_is_given(folder: Path) -> None:
    hall = Hall(folder, racks='racks: {r1: {nodes: "r1-n[1-6]"}, r2: {nodes: "r2-n[1-2]"}}', taken=1)
    hall.keep(slots=hall.on("r1-n2", "r1-n4"))
    hall.store.ledger.drain("hall", [NodeName("r1-n5")], Drain(node=NodeName("r1-n5"), reason="fan", at=1.0, by="me"))
    assert hall.allotter.add_spare(hall.run, ENLIST).nodes == ("r1-n6",)
    hall.keep(
        slots=hall.on("r1-n4", "r1-n6"), failed_nodes={NodeName("r1-n2"): Evidence(cause=Cause.NODE, message="Xid 79")}
    )
    answer = hall.allotter.add_spare(hall.run, ENLIST)
    assert (answer.result, answer.message) == (
        Result.FAILED,
        "no free node for slice `main.s0` in r1",
    )


def test_a_node_that_does_not_answer_is_passed_over_and_said(folder: Path) -> None:
    sim = "{faults: [{at: 0, node: r1-n4, fault: power_cut}]}"
    hall = Hall(folder, racks='racks: {r1: {nodes: "r1-n[1-5]"}}', sim=sim)
    hall.keep(slots=hall.on("r1-n1", "r1-n3"))
    assert hall.allotter.add_spare(hall.run, ENLIST).nodes == ("r1-n5",)
    hall.keep(slots=hall.on("r1-n5", "r1-n3"))
    assert "`r1-n4`: " in hall.allotter.add_spare(hall.run, ENLIST).message


def test_a_node_that_was_added_to_the_file_serves_and_a_broken_file_harms_nobody(folder: Path) -> None:
    hall = Hall(folder, racks='racks: {r1: {nodes: "r1-n[1-3]"}}')
    hall.keep(slots=hall.on("r1-n1", "r1-n3"))
    hall.file.write_text("racks: {")
    assert hall.allotter.add_spare(hall.run, ENLIST).result is Result.FAILED
    hall.write('racks: {r1: {nodes: "r1-n[1-4]"}}')
    assert hall.allotter.add_spare(hall.run, ENLIST).nodes == ("r1-n4",)


def test_a_slice_moves_whole_and_its_old_nodes_stay_until_they_are_let_go(folder: Path) -> None:
    hall = Hall(folder, racks=TWO_RACKS)
    old = set(hall.run.placement.nodes)
    assert old == {"r1-n1", "r1-n2", "r1-n3"}
    hall.keep(slots=hall.on("r1-n1", "r1-n2"), requested=old)
    move = Relocate(reason=REASON, slice="main.s0", without=(NodeName("r1-n1"), NodeName("r1-n2")))
    answer = hall.allotter.relocate(hall.run, move)
    assert answer.nodes == ("r2-n1", "r2-n2", "r2-n3")
    run, _ = hall.store.load(hall.run.id)
    (part,) = run.placement.slices
    assert (part.key, part.rack, part.nodes, part.spares) == ("main.s0", "r2", ("r2-n1", "r2-n2"), ("r2-n3",))
    assert {node.rack for node in run.fleet.nodes} == {"r1", "r2"}
    assert hall.claims() == old | set(answer.nodes)
    again = hall.allotter.relocate(hall.run, move)
    assert again.nodes == answer.nodes
    hall.keep(slots=hall.on("r2-n1", "r2-n2"), requested=old | set(answer.nodes))
    hall.keep(slots=hall.on("r2-n1", "r2-n2"), requested={NodeName("r1-n1"), *answer.nodes})
    assert hall.claims() == {"r1-n1", *answer.nodes}


def test_a_slice_that_fits_nowhere_else_says_why(folder: Path) -> None:
    hall = Hall(folder, racks='racks: {r1: {nodes: "r1-n[1-4]"}, r2: {nodes: "r2-n[1-2]"}}')
    hall.keep(slots=hall.on("r1-n1", "r1-n2"), requested=set(hall.run.placement.nodes))
    move = Relocate(reason=REASON, slice="main.s0", without=(NodeName("r1-n1"), NodeName("r1-n2")))
    answer = hall.allotter.relocate(hall.run, move)
    assert answer.result is Result.FAILED
    assert answer.message == ("slice `main.s0` fits nowhere else: needs 3 nodes in one place, at most 2 are free")
    assert hall.store.load(hall.run.id)[0] == hall.run


@pytest.mark.parametrize(
    ("lease", "given"),
    [
        ("run `far` (far-abc234) of bob since noon", "r1-n5"),
        (None, "r1-n4"),
    ],
)
def test_a_node_that_a_run_of_another_home_has_is_passed_over(folder: Path, lease: str | None, given: str) -> None:
    hall = Hall(folder, racks='racks: {r1: {nodes: "r1-n[1-5]"}}')
    hall.keep(slots=hall.on("r1-n1", "r1-n3"))

    class Held(SimProber):
        def probe(self, nodes, listener, needs=NOTHING):
            found = super().probe(nodes, listener, needs)
            return {name: replace(one, lease=lease if name == "r1-n4" else None) for name, one in found.items()}

    allotter = StoreAllotter(hall.store, lambda fleet: Held(fleet.sim))
    assert allotter.add_spare(hall.run, ENLIST).nodes == (given,)


def moving(hall: Hall, *names: str, who: str = "job", **changes: object) -> Move:
    """A plan has reserved nodes for the slice of the run; the order to move there."""
    nodes = tuple(map(NodeName, names))
    plan = StoredPlan(
        id="defrag-ab12cd",
        fleet="hall",
        beneficiary=RunName("big"),
        user=User(name="ann", host="desk"),
        created=time.time(),
        expires=time.time() + 60.0,
        state=PlanState.ACTIVE,
        message="",
        spent=0.0,
        steps=(),
        owner=None,
    )
    kept = dict.fromkeys(nodes, RunName(who))
    hall.store.move_plans.begin(replace(plan, **changes), kept, dict, lambda _: None)
    return Move(reason=REASON, order=MoveOrder(plan=plan.id, slices=(SliceNodes(slice="main.s0", nodes=nodes),)))


def test_a_slice_moves_to_the_nodes_that_a_plan_reserved_and_back(folder: Path) -> None:
    hall = Hall(folder, racks=TWO_RACKS)
    (old,) = hall.run.placement.slices
    hall.keep(slots=hall.on("r1-n1", "r1-n2"), requested=set(hall.run.placement.nodes))
    move = moving(hall, "r2-n2", "r2-n3", "r2-n4")
    for _ in range(2):  # the receipt of the first was lost
        assert hall.allotter.move(hall.run, move).result is Result.DONE
        (part,) = hall.store.load(hall.run.id)[0].placement.slices
        assert (part.rack, part.domain, part.nodes, part.spares) == ("r2", "r2", ("r2-n2", "r2-n3"), ("r2-n4",))
    back = replace(
        move,
        back=True,
        order=replace(move.order, slices=(SliceNodes(slice="main.s0", nodes=(*old.nodes, *old.spares)),)),
    )
    assert hall.allotter.move(hall.run, back).result is Result.DONE
    assert hall.store.load(hall.run.id)[0].placement.slices == (old,)
    assert hall.claims() == {"r1-n1", "r1-n2", "r1-n3"}


@pytest.mark.parametrize(
    ("changes", "sim", "message"),
    [
        ({"expires": 1.0}, "{seed: 1}", "plan `defrag-ab12cd` has ended: its nodes are not reserved any more"),
        ({}, "{faults: [{at: 0, node: r2-n3, fault: power_cut}]}", "r2-n3 is unhealthy; `r2-n3`: "),
    ],
    ids=["ended", "unhealthy"],
)
def test_a_slice_does_not_move_once_its_new_place_is_lost(
    folder: Path, changes: dict[str, object], sim: str, message: str
) -> None:
    hall = Hall(folder, racks=TWO_RACKS, sim=sim)
    answer = hall.allotter.move(hall.run, moving(hall, "r2-n2", "r2-n3", "r2-n4", **changes))
    assert answer.result is Result.FAILED
    assert answer.message.startswith(message)
    assert hall.store.load(hall.run.id)[0] == hall.run


def test_a_recovery_takes_a_reserved_node_if_there_is_no_other(folder: Path) -> None:
    hall = Hall(folder, racks='racks: {r1: {nodes: "r1-n[1-5]"}}')
    moving(hall, "r1-n4", who="big")
    hall.keep(slots=hall.on("r1-n1", "r1-n3"))
    assert hall.allotter.add_spare(hall.run, ENLIST).nodes == ("r1-n5",)
    assert hall.store.move_plans.load("defrag-ab12cd").state is PlanState.ACTIVE


def test_a_recovery_without_another_node_cancels_the_plan(folder: Path) -> None:
    hall = Hall(folder, racks=TWO_RACKS)
    moving(hall, "r2-n1", who="big")
    other = hall.launch("other", TopologyRule(nodes_per_slice=1, racks=("r2",)))
    record = replace(Record(), slots={}, failed_nodes={NodeName("r2-n2"): Evidence(cause=Cause.NODE, message="Xid")})
    hall.store.intend(other.id, record, (), "on", RunState.RUNNING, 5.0)
    for name in ("r2-n3", "r2-n4"):
        hall.store.ledger.drain("hall", [NodeName(name)], Drain(node=NodeName(name), reason="fan", at=1.0, by="me"))
    assert hall.allotter.add_spare(other, ENLIST).nodes == ("r2-n1",)
    assert hall.store.move_plans.load("defrag-ab12cd").state is PlanState.CANCELLED


def test_a_slice_moves_to_a_rack_whose_domain_only_the_drivers_know(folder: Path) -> None:
    hall = Hall(folder, racks=TWO_RACKS)
    fleet = replace(hall.fleet, nodes=tuple(replace(node, domain=None) for node in hall.fleet.nodes), source="unknown")
    task = hall.run.task
    hall.store.finish(hall.run.id, RunState.STOPPED, 2.0)
    known = guessed(fleet, {})
    run = hall.store.launch(
        name=RunName("job"),
        task=task,
        fleet=fleet,
        decide=lambda taken: place(task, known, taken),
        source="task.yaml",
        at=3.0,
    )
    assert hall.allotter.move(run, moving(hall, "r2-n1", "r2-n2", "r2-n3")).result is Result.DONE
    moved, _ = hall.store.load(run.id)
    (part,) = moved.placement.slices
    assert {node.domain for node in moved.fleet.nodes if node.name in part.nodes} == {part.domain}
    assert part.domain not in (None, "r2"), "it was guessed"
