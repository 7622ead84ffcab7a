"""Colocation: groups that run on the nodes of another group."""

from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.colocation import can_colocate, first_gpu, placed_groups, position_on_node
from tests.unit.core.placement.builders import fleet, group, placed


def on(owner: str, name: str, gpus: int, nodes: int = 1) -> Group:
    """A group on the nodes of another."""
    return Group(name=name, topology=TopologyRule(nodes_per_slice=nodes, nodes_of=owner), gpus=gpus)


TRAINER = group("trainer", gpus=2, nodes=2)
JUDGE, ROUTER = on("trainer", "judge", 2), on("trainer", "router", 0)
TASK = Task(name="t", groups=(TRAINER, JUDGE, ROUTER))


def test_only_owners_are_placed_with_the_gpus_of_all_groups() -> None:
    assert [(one.name, one.gpus) for one in placed_groups(TASK).groups] == [("trainer", 4)]


def test_groups_on_a_node_have_their_own_gpus_in_task_order() -> None:
    assert [first_gpu(TASK, one) for one in TASK.groups] == [0, 2, 4]
    assert [position_on_node(TASK, one) for one in TASK.groups] == [(0, 3), (1, 3), (2, 3)]


def test_the_reason_of_a_colocated_slice_names_the_owner_and_the_gpus() -> None:
    answer = placed(fleet("r1=2"), *TASK.groups)
    assert answer.reasons == (
        "only rack with room, 0 of 2 free nodes left",
        "on nodes of `trainer`, GPUs 2-3",
        "on nodes of `trainer`, no GPU",
    )


def test_a_group_with_colocated_groups_or_a_driver_cannot_be_colocated() -> None:
    other, driver = group("other", nodes=2), Group(name="driver", topology=TopologyRule(), driver="main.py")
    task = Task(name="t", groups=(TRAINER, JUDGE, other, driver))
    assert can_colocate(task, TRAINER, other)
    assert not can_colocate(task, other, TRAINER)
    assert not can_colocate(task, TRAINER, driver)
