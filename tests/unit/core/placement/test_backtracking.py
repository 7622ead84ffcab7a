"""Full search: where best fit fails."""

from tests.unit.core.placement.builders import fleet, group, placed, refused


def test_slices_that_share_no_rack_are_found_where_best_fit_fails() -> None:
    inventory = fleet("r1=6@b1", "r2=4@b1", "r3=4@b1", "r4=1@b1", "r5=1@b1")
    answer = placed(inventory, group(slices=2, nodes=8, within="block", spread="rack"))
    spans = [{name.split("-")[0] for name in part.nodes} for part in answer.slices]
    assert spans == [{"r1", "r4", "r5"}, {"r2", "r3"}]


def test_a_search_that_reaches_its_limit_refuses_without_proof() -> None:
    # Slices of even sizes waste a node of each rack of odd size: 204 nodes do not fit into 208, which no count shows.
    roles = [group(f"g{size}", nodes=size, slices=4 if size == 6 else 3) for size in range(6, 17, 2)]
    short = refused(fleet(*(f"r{size}={size}" for size in range(19, 34, 2))), *roles)
    assert not short.proven
