"""Groups that may have fewer slices: as many as fit, and never fewer than their minimum."""

import pytest

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Shortfall, Unavailable
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.core.placement.slice_range import as_placed, fewest_slices, most_slices, pinned
from launcher.core.queue.timeline import fit


def hall(*racks: int) -> Inventory:
    """An inventory of racks with so many nodes each."""
    nodes = tuple(
        Node(name=NodeName(f"r{rack}-n{at}"), rack=RackName(f"r{rack}"), domain=f"d{rack}", access=Access(address=""))
        for rack, size in enumerate(racks)
        for at in range(size)
    )
    return Inventory(name="hall", transport=Transport.SIM, nodes=nodes)


def elastic(name: str, least: int, most: int, size: int = 2) -> Group:
    return Group(name=name, topology=TopologyRule(slices=most, min_slices=least, max_slices=most, nodes_per_slice=size))


def job(*groups: Group) -> Task:
    return Task(name="job", groups=groups)


def counts(found: Placement | Shortfall) -> dict[str, int]:
    assert isinstance(found, Placement), found
    return {name: sum(part.group == name for part in found.slices) for name in {part.group for part in found.slices}}


@pytest.mark.parametrize(("racks", "slices"), [((2,) * 8, 8), ((2,) * 7, 7), ((2,) * 6, 6), ((3, 4, 5, 1, 2, 2), 7)])
def test_a_task_gets_as_many_slices_as_fit(racks: tuple[int, ...], slices: int) -> None:
    assert counts(place(job(elastic("main", 6, 8)), hall(*racks), {})) == {"main": slices}


def test_where_the_fewest_do_not_fit_the_shortfall_is_about_them() -> None:
    found = place(job(elastic("main", 6, 8)), hall(2, 2, 2, 2, 2), {})
    assert isinstance(found, Shortfall)
    assert (found.slices, found.placed, found.proven) == (6, 5, True)


def test_the_first_group_gets_more_before_the_next() -> None:
    task = job(elastic("one", 1, 4), elastic("two", 1, 4))
    assert counts(place(task, hall(2, 2, 2, 2, 2), {})) == {"one": 4, "two": 1}
    assert counts(place(task, hall(2, 2, 2, 2, 2, 2, 2), {})) == {"one": 4, "two": 3}


def test_a_queued_task_fits_as_soon_as_its_fewest_slices_do() -> None:
    fleet, taken = hall(2, 2, 2), {NodeName("r2-n0"): Unavailable(used_by="other")}
    found = fit(job(elastic("main", 2, 3)), fleet, taken)
    assert found is not None
    assert counts(found) == {"main": 2}
    assert fit(job(elastic("main", 3, 4)), fleet, taken) is None


def test_slices_that_are_kept_are_not_left_out() -> None:
    task = job(elastic("main", 1, 3))
    first = place(task, hall(2, 2), {})
    assert isinstance(first, Placement)
    assert fewest_slices(task, first.slices).group("main").topology.slices == 2
    again = place(task, hall(2, 2), {}, first.slices)
    assert isinstance(again, Placement)
    assert again.slices == first.slices


def test_the_number_is_found_by_bisection() -> None:
    tried: list[int] = []

    def attempt(task: Task) -> Placement | None:
        tried.append(task.groups[0].topology.slices)
        return Placement(slices=()) if tried[-1] <= 37 else None

    assert most_slices(job(elastic("main", 1, 128)), (), attempt) is not None
    assert max(one for one in tried if one <= 37) == 37
    assert len(tried) <= 10


def test_a_placed_task_has_the_number_of_slices_that_it_got_and_can_be_full_again() -> None:
    task = job(elastic("main", 1, 3), Group(name="side", topology=TopologyRule(slices=1, nodes_per_slice=1)))
    found = place(task, hall(2, 2, 1), {})
    assert isinstance(found, Placement)
    placed = as_placed(task, found.slices)
    assert [group.topology.slices for group in placed.groups] == [2, 1]
    assert placed.full() == task


def test_a_pinned_task_is_placed_whole_or_not_at_all() -> None:
    assert isinstance(place(pinned(job(elastic("main", 1, 3))), hall(2, 2), {}), Shortfall)
