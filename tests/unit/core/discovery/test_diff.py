"""Differences between an inventory and what its nodes report."""

from launcher.config.inventory.read import parse_inventory
from launcher.core.discovery.diff import DifferenceKind, compare
from launcher.core.discovery.location import amend
from launcher.core.model.nodeset import NodeName
from tests.unit.core.discovery.test_location import PATH, A, B, at


def test_contradictions_come_before_missing_values() -> None:
    text = f'name: h\nracks:\n  r1: {{domain: {A}, nodes: "a[1-2]"}}\n  r2: {{nodes: "b[1-2]"}}\n'
    fleet = parse_inventory(text, PATH)
    reported = {
        NodeName("a1"): at("C1", 0, B, machine="GPU-1"),
        NodeName("a2"): at("C1", 1, A.upper(), machine="GPU-1"),
        NodeName("b1"): at("C2", 0, B),
    }
    assert [(one.kind, one.nodes, one.message) for one in compare(fleet, reported)] == [
        (DifferenceKind.DIFFERS, "a1", f"domain: inventory `{A}`, driver `{B}`"),
        (DifferenceKind.DIFFERS, "a[1-2]", "same machine"),
        (DifferenceKind.MISSING, "b1", f"domain `{B}`"),
    ]


def test_an_inventory_that_matches_its_nodes_has_no_difference() -> None:
    text = f'name: h\ndefaults: {{accelerator: GB300}}\nracks:\n  r1: {{domain: {A}, nodes: "a[1-2]"}}\n'
    fleet = parse_inventory(text, PATH)
    reported = {NodeName(f"a{n}"): at("C1", n - 1, A, accelerator="GB300", machine=f"GPU-{n}") for n in (1, 2)}
    assert compare(fleet, reported) == ()
    assert not amend(fleet, reported)
