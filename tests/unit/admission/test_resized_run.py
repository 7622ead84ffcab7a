"""A run with fewer or more slices: its nodes, its claims, and what of them is not touched."""

from dataclasses import replace
from pathlib import Path

import pytest

from launcher.admission.node_choice import NoChoice, shrunk_run
from launcher.admission.reallocate import StoreAllotter
from launcher.config.inventory.read import read_inventory
from launcher.core.model.actions import Reason, Resize, Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.receipt import Result
from launcher.core.model.record import Record
from launcher.core.model.run import MemberName, RunName, RunState, Slot
from launcher.core.model.task import Group, OnNoSpare, RecoveryPolicy, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.drive.adapters import open_prober
from launcher.store.store import Store

REASON = Reason(why=Why.RESIZE, message="no spare")
POLICY = RecoveryPolicy(on_no_spare=OnNoSpare.SHRINK)


class Hall:
    """A store with racks of two nodes, and a run of up to three slices of two nodes."""

    def __init__(self, folder: Path, racks: int = 4, *, blocked: int = 0) -> None:
        self.file = folder / "hall.yaml"
        rows = "".join(f'  r{at}: {{nodes: "r{at}-n[1-2]"}}\n' for at in range(1, racks + 1))
        self.file.write_text(f"name: hall\ntransport: sim\nsim: {{seed: 1}}\nracks:\n{rows}")
        self.store = Store(folder / "home")
        self.fleet = read_inventory(self.file)
        for at in range(blocked):
            self.launch(f"other-{at}", TopologyRule(nodes_per_slice=2, racks=(f"r{racks - at}",)))
        rule = TopologyRule(slices=3, min_slices=1, max_slices=3, nodes_per_slice=2)
        self.run = self.launch("job", rule)
        self.allotter = StoreAllotter(self.store, lambda fleet: open_prober(folder / "home", fleet))

    def launch(self, name: str, rule: TopologyRule):  # type: ignore[no-untyped-def]
        task = Task(name=name, groups=(Group(name="main", topology=rule, gpus=4, run="true", recovery=POLICY),))
        return self.store.launch(
            name=RunName(name),
            task=task,
            fleet=self.fleet,
            decide=lambda taken: place(task, self.fleet, taken),
            source="task.yaml",
            at=1.0,
        )

    def keep(self, **changes: object) -> Record:
        """The run's controller keeps a record with a slot for each rank."""
        run = self.store.load(self.run.id)[0]
        nodes = [node for part in run.placement.slices for node in part.nodes]
        slots = {
            MemberName(f"main/{rank}"): Slot(member=MemberName(f"main/{rank}"), node=node)
            for rank, node in enumerate(nodes)
        }
        record = replace(Record(slots=slots), **changes)  # type: ignore[arg-type]
        self.store.intend(self.run.id, record, (), "on", RunState.RUNNING, 5.0)
        return record

    def nodes(self) -> list[list[str]]:
        return [list(part.nodes) for part in self.store.load(self.run.id)[0].placement.slices]

    def claims(self) -> set[str]:
        return {str(name) for name, use in self.store.unavailable(self.fleet).items() if use.used_by == "job"}


def names(*racks: int) -> list[list[str]]:
    return [[f"r{rack}-n1", f"r{rack}-n2"] for rack in racks]


@pytest.mark.parametrize(("drop", "left"), [("main.s0", (3, 2)), ("main.s1", (1, 3)), ("main.s2", (1, 2))])
def test_the_last_slice_takes_the_place_of_the_dropped_one_and_its_nodes_become_free(
    tmp_path: Path, drop: str, left: tuple[int, ...]
) -> None:
    hall = Hall(tmp_path)
    hall.keep(dropping=drop)
    assert hall.allotter.perform(hall.run, Resize(reason=REASON, drop=drop)).result is Result.DONE
    assert hall.nodes() == names(*left)
    run, _ = hall.store.load(hall.run.id)
    assert run.task.groups[0].topology.slices == 2
    assert hall.claims() == {node for part in names(*left) for node in part}


def test_a_slice_that_the_record_does_not_drop_stays(tmp_path: Path) -> None:
    hall = Hall(tmp_path)
    hall.keep(dropping="main.s1")
    answer = hall.allotter.perform(hall.run, Resize(reason=REASON, drop="main.s0"))
    assert (answer.result, answer.message) == (Result.FAILED, "slice `main.s0` is not to be dropped")
    assert hall.nodes() == names(1, 2, 3)


def test_a_run_starts_with_the_slices_that_fit_and_grows_into_room_once(tmp_path: Path) -> None:
    hall = Hall(tmp_path, 4, blocked=2)
    assert hall.nodes() == names(1, 2)
    hall.keep()
    assert hall.allotter.room(hall.run) == frozenset()
    assert hall.allotter.grow(hall.run).result is Result.FAILED
    hall.store.finish(next(row.id for row in hall.store.runs() if row.name == "other-0"), RunState.STOPPED, 9.0)
    assert hall.allotter.room(hall.run) == {"main"}
    assert "r4-n1" not in hall.claims(), "to look claims nothing"
    answer = hall.allotter.grow(hall.run)
    assert (answer.result, answer.nodes) == (Result.DONE, ("r4-n1", "r4-n2"))
    assert {"r4-n1", "r4-n2"} <= hall.claims()
    assert hall.allotter.grow(hall.run).result is Result.DONE, "the answer was lost"
    assert hall.allotter.perform(hall.run, Resize(reason=REASON)).result is Result.DONE
    assert hall.nodes() == names(1, 2, 4)


def test_a_spare_that_a_slice_got_later_is_not_taken_for_a_new_slice(tmp_path: Path) -> None:
    hall = Hall(tmp_path, 3, blocked=1)
    run, _ = hall.store.load(hall.run.id)
    first, second = run.placement.slices
    got = replace(run.placement, slices=(replace(first, nodes=first.nodes[:1], spares=first.nodes[1:]), second))
    narrow = replace(run.task.groups[0].topology, nodes_per_slice=1, slices=2)
    group = replace(run.task.groups[0], topology=narrow)
    slices = (got.slices[0], replace(second, nodes=second.nodes[:1], spares=second.nodes[1:]))
    changed = replace(run, task=replace(run.task, groups=(group,)), placement=replace(run.placement, slices=slices))
    hall.store.allot(run.id, lambda *_: changed)
    hall.keep()
    assert hall.allotter.room(hall.run) == frozenset(), "every free node is a spare that may hold a slot"


def test_a_spare_lent_to_another_slice_stays_with_it(tmp_path: Path) -> None:
    hall = Hall(tmp_path)
    run, _ = hall.store.load(hall.run.id)
    first, *others = run.placement.slices
    lent = NodeName("r4-n1")
    run = replace(run, placement=replace(run.placement, slices=(replace(first, spares=(lent,)), *others)))
    record = hall.keep(dropping="main.s0")
    record.slots[MemberName("main/2")] = Slot(member=MemberName("main/2"), node=lent)
    found = shrunk_run(run, record, "main.s0", hall.fleet)
    assert not isinstance(found, NoChoice)
    assert [part.spares for part in found.placement.slices] == [(), (lent,)]


def test_a_run_grows_into_the_rack_that_it_keeps_for_itself(tmp_path: Path) -> None:
    hall = Hall(tmp_path)
    rule = TopologyRule(slices=1, min_slices=1, max_slices=2, nodes_per_slice=1, racks=("r4",), exclusive="rack")
    group = Group(name="main", topology=rule, gpus=4, run="true", recovery=POLICY)
    fixed = Task(name="alone", groups=(replace(group, topology=replace(rule, min_slices=None, max_slices=None)),))
    hall.run = hall.store.launch(
        name=RunName("alone"),
        task=Task(name="alone", groups=(group,)),
        fleet=hall.fleet,
        decide=lambda taken: place(fixed, hall.fleet, taken),
        source="task.yaml",
        at=1.0,
    )
    hall.keep()
    assert hall.allotter.room(hall.run) == {"main"}
    assert hall.allotter.grow(hall.run).result is Result.DONE
