"""Which nodes of an inventory count as equal racks, and what is said of the others."""

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.planner.fleet_shape import counted_fleet
from launcher.core.planner.sizing import FleetShape


def rack(name: str, nodes: int, *, kind: str | None = "GB300", gpus: int = 4, domain: str | None = None) -> list[Node]:
    return [
        Node(
            name=NodeName(f"{name}-{domain or 'n'}{at}"),
            rack=RackName(name),
            domain=domain or name,
            access=Access(address="10.0.0.1"),
            accelerator=kind,
            gpus=gpus,
        )
        for at in range(nodes)
    ]


def hall(*racks: list[Node]) -> Inventory:
    return Inventory(name="hall", transport=Transport.SIM, nodes=tuple(node for one in racks for node in one))


def test_equal_racks_count_as_they_are() -> None:
    found = counted_fleet(hall(rack("r1", 18), rack("r2", 18)))
    assert found is not None
    assert found.shape == FleetShape(racks=2)
    assert (found.accelerator, found.notes) == ("GB300", ())


def test_the_most_common_size_counts_and_smaller_racks_are_left_out() -> None:
    found = counted_fleet(hall(rack("r1", 18), rack("r2", 18), rack("r3", 20), rack("r4", 9)))
    assert found is not None
    assert found.shape == FleetShape(racks=3)
    assert found.notes == (
        "r4 left out: fewer than 18 nodes",
        "r3 counted as 18 nodes, as most racks have",
    )


def test_of_two_sizes_as_common_the_one_with_more_nodes_counts() -> None:
    found = counted_fleet(hall(rack("r1", 18), rack("r2", 2)))
    assert found is not None
    assert found.shape == FleetShape(racks=1)
    alike = counted_fleet(hall(rack("r1", 18), rack("r2", 12)))
    assert alike is not None
    assert alike.shape == FleetShape(racks=2, nodes_per_rack=12)


def test_the_kind_with_the_most_gpus_counts_or_the_one_asked_for() -> None:
    mixed = hall(rack("r1", 18), rack("r2", 4, kind="H100", gpus=8), rack("r3", 2, kind=None, gpus=0))
    found = counted_fleet(mixed)
    assert found is not None
    assert (found.accelerator, found.shape) == ("GB300", FleetShape(racks=1))
    assert found.notes == ("4 nodes of H100:8 left out: only GB300:4 counts",)
    asked = counted_fleet(mixed, "H100")
    assert asked is not None
    assert asked.shape == FleetShape(racks=1, nodes_per_rack=4, gpus_per_node=8)


def test_nodes_of_no_known_kind_count_without_a_name() -> None:
    found = counted_fleet(hall(rack("r1", 3, kind=None)))
    assert found is not None
    assert (found.accelerator, found.shape.nodes_per_rack) == (None, 3)


def test_a_rack_of_two_domains_counts_as_two() -> None:
    found = counted_fleet(hall(rack("r1", 9, domain="a") + rack("r1", 9, domain="b")))
    assert found is not None
    assert found.shape == FleetShape(racks=2, nodes_per_rack=9)
    assert found.notes == ("2 NVLink domains in 1 rack: each domain counts as a rack",)


def test_no_shape_without_gpus_or_the_accelerator() -> None:
    assert counted_fleet(hall(rack("r1", 3, gpus=0))) is None
    assert counted_fleet(hall(rack("r1", 3)), "GB200") is None
