"""A run with other slices than its record: what stays, what goes, and what cannot change now."""

from dataclasses import replace

from launcher.core.control.resized_record import fit_to_run, hindrance
from launcher.core.model.inventory import Access
from launcher.core.model.observation import Seen
from launcher.core.model.run import Run, Target
from launcher.core.model.run_index import index_of
from launcher.core.model.task import RecoveryPolicy, RestartWith
from tests.situations import Situation, kinds, make_run, name


def resized(run: Run, slices: int) -> Run:
    """The run with another number of slices; its fleet keeps every node that it ever had."""
    other = make_run(slices=slices)
    known = {node.name for node in run.fleet.nodes}
    nodes = (*run.fleet.nodes, *(node for node in other.fleet.nodes if node.name not in known))
    return replace(run, task=other.task, placement=other.placement, fleet=replace(run.fleet, nodes=nodes))


def serving(slices: int) -> Situation:
    here = Situation(make_run(slices=slices))
    here.serving()
    return here


def smaller(here: Situation, *, goes: str = "main.s1") -> Run:
    """The run of two slices with a target of one."""
    group = here.run.task.groups[0]
    group = replace(group, topology=replace(group.topology, slices=1))
    target = Target(task=replace(here.run.task, groups=(group,)), comes=(), goes=(goes,), fleet=here.run.fleet)
    return replace(here.run, target=target)


def test_slots_of_a_slice_that_went_are_forgotten_and_its_nodes_are_released() -> None:
    here = serving(2)
    kept = {member: slot for member, slot in here.record.slots.items() if slot.node in (name(1, 1), name(1, 2))}
    here.run = resized(here.run, 1)
    decision = here.decide()
    assert here.record.slots == kept
    assert here.record.verified.keys() == {"main.s0"}
    assert {f"release:slot:r2-n{node}" for node in (1, 2, 3)} <= set(kinds(decision))
    assert not [key for key in kinds(decision) if key.startswith("release:slot:r1")]


def test_new_slots_begin_under_a_generation_that_the_run_has_not_had_and_the_others_keep_theirs() -> None:
    here = serving(1)
    here.record = replace(here.record, newest_generation=4)
    here.run = resized(here.run, 2)
    here.views |= {name(2, node): Seen() for node in (1, 2, 3)}
    decision = here.decide()
    generations = {str(slot.node): slot.generation for slot in here.record.slots.values()}
    assert generations == {"r1-n1": 0, "r1-n2": 0, "r2-n1": 5, "r2-n2": 5}
    assert {f"acquire:r2-n{node}" for node in (1, 2, 3)} <= set(kinds(decision))
    assert here.gang().attempt == 1, "the gang starts as the next attempt, once the new slots are ready"


def test_a_run_without_a_hindrance_may_change() -> None:
    here = serving(2)
    assert hindrance(here.run, here.record) is None, "it has no target"
    assert hindrance(smaller(here), here.record) is None


def test_ranks_that_restart_one_by_one_hinder_a_change() -> None:
    here = Situation(make_run(recovery=RecoveryPolicy(restart_with=RestartWith.MEMBER)))
    assert hindrance(smaller(here), here.record) == "ranks of `main` restart one by one (`restart_with: member`)"


def test_a_group_whose_ranks_have_all_ended_well_does_not_change_and_one_that_failed_may() -> None:
    here = serving(2)
    for rank in range(4):
        here.end_rank(rank, 0 if rank else 3)
    here.decide()
    assert hindrance(smaller(here), here.record) is None
    here = serving(2)
    for rank in range(4):
        here.end_rank(rank, 0)
    here.decide()
    assert hindrance(smaller(here), here.record) == "all ranks of `main` have ended"


def test_the_slice_with_the_node_of_the_head_stays() -> None:
    here = Situation(make_run())
    refused = "`r1-n1` is the node of the Ray head, and would be removed"
    assert hindrance(smaller(here, goes="main.s0"), here.record) == refused, "the head is not started yet"
    here.leased()
    assert "start_head" in kinds(here.decide())
    assert hindrance(smaller(here, goes="main.s1"), here.record) is None
    assert hindrance(smaller(here, goes="main.s0"), here.record) == refused


def test_a_head_that_moved_keeps_its_new_slice_and_a_head_on_a_machine_of_its_own_keeps_none() -> None:
    here = Situation(make_run())
    moved = replace(here.record, head=name(2, 2))
    assert hindrance(smaller(here, goes="main.s0"), moved) is None
    assert (
        hindrance(smaller(here, goes="main.s1"), moved) == "`r2-n2` is the node of the Ray head, and would be removed"
    )
    here.run = replace(here.run, fleet=replace(here.run.fleet, head=Access(address="head")))
    assert hindrance(smaller(here, goes="main.s0"), here.record) is None


def dropping(here: Situation, slices: int, index: int) -> Run:
    """The run once a slice went and the last one took its index."""
    here.record.dropping = f"main.s{index}"
    now, last = here.run, here.run.placement.slices[-1]
    rest = [replace(last, index=index) if part.index == index else part for part in now.placement.slices[:-1]]
    placement = replace(now.placement, slices=tuple(rest[: slices - 1]))
    return replace(now, task=now.task.with_slices({"main": slices - 1}), placement=placement)


def test_the_last_slice_takes_the_index_of_a_dropped_one_on_its_nodes_with_new_raylets() -> None:
    here = serving(3)
    here.run = dropping(here, 3, 0)
    decision = here.decide()
    held = {str(member): (str(slot.node), slot.generation) for member, slot in here.record.slots.items()}
    assert held == {"main/0": ("r3-n1", 1), "main/1": ("r3-n2", 1), "main/2": ("r2-n1", 0), "main/3": ("r2-n2", 0)}
    done = set(kinds(decision))
    assert {"kill:r3-n1:generation:main/0@0#0", "kill:r3-n2:generation:main/1@0#0"} <= done, "raylets have old labels"
    assert {f"release:slot:r1-n{node}" for node in (1, 2, 3)} <= done
    assert here.record.stale == {"main.s0"}, "its placement group is that of the nodes before"
    assert here.record.verified.keys() == {"main.s1"}
    assert here.record.dropping is None


def test_without_the_last_slice_no_other_slot_changes() -> None:
    here = serving(3)
    before = {member: slot for member, slot in here.record.slots.items() if slot.node.startswith(("r1", "r2"))}
    here.run = dropping(here, 3, 2)
    here.decide()
    assert here.record.slots == before
    assert not here.record.kills
    assert here.record.stale == set()


def test_a_wish_of_an_operator_follows_the_slice_to_its_new_index() -> None:
    here = serving(3)
    record = here.record
    run = dropping(here, 3, 0)
    record.relocating = {"main.s0", "main.s2"}
    fit_to_run(record, run, index_of(run))
    assert record.relocating == {"main.s0"}
    record.dropping = "main.s1"
    assert hindrance(smaller(here), record) == "slice `main.s1` is being dropped"
