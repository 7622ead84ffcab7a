"""Export to Slurm, and import of the exported file."""

from pathlib import Path

import pytest

from launcher.config.importers.formats import InventoryFormat
from launcher.config.importers.read import import_text
from launcher.config.inventory.read import parse_inventory
from launcher.config.inventory.slurm_export import slurm_list, topology_conf, topology_yaml
from launcher.core.model.inventory import Inventory
from launcher.errors import SpecError

A = "1f0c5d3a-7a34-4a0e-9b57-0d7c1b2a3e41.32766"
B = "1f0c5d3a-7a34-4a0e-9b57-0d7c1b2a3e41.4"
HALL = f"""
name: hall
levels: [zone, block, rack]
racks:
  r01: {{zone: z1, block: b1, nodes: "r01-n[01-18]"}}
  r02: {{zone: z1, block: b2, domain: {A}, nodes: "r02-n[01-16]"}}
  r03:
    zone: z2
    block: b3
    nodes:
      "r03-n[1-4]": {{domain: {A}}}
      "r03-n[5-8]": {{domain: {B}}}
      r03-n9:
  unsorted: {{nodes: spare1}}
"""


def fleet(text: str = HALL) -> Inventory:
    return parse_inventory(text, Path("hall.yaml"))


def test_each_domain_of_a_rack_is_a_block() -> None:
    made = topology_conf(fleet())
    assert made.text.splitlines()[1:] == [
        "BlockName=r01 Nodes=r01-n[01-18]",
        "BlockName=r02 Nodes=r02-n[01-16]",
        "BlockName=r03-1 Nodes=r03-n[1-4]",
        "BlockName=r03-2 Nodes=r03-n[5-8]",
        "BlockSizes=4",
    ]
    assert made.warnings == (
        "omitted because their rack is unknown: spare1",
        "rack `r03` has 2 NVLink domains, which are blocks of their own: r03-1, r03-2",
        "omitted because their domain in rack `r03` is unknown: r03-n9",
        "a topology.conf holds blocks only: export a topology.yaml to include levels above the rack",
    )


def test_levels_are_a_tree_of_switches() -> None:
    made = topology_yaml(fleet())
    assert '      - switch: z1\n        children: "b[1-2]"\n' in made.text
    assert '      - switch: b2\n        nodes: "r02-n[01-16]"\n' in made.text
    assert "omitted from the tree because their block is unknown: spare1" in made.warnings


@pytest.mark.parametrize("kind", [InventoryFormat.SLURM_CONF, InventoryFormat.SLURM_YAML])
def test_exported_file_is_imported_with_the_same_racks(kind: InventoryFormat) -> None:
    given = fleet(HALL.replace("  unsorted: {nodes: spare1}\n", "").replace("      r03-n9:\n", ""))
    made = topology_conf(given) if kind is InventoryFormat.SLURM_CONF else topology_yaml(given)
    found = import_text(made.text, "topology", None)
    assert found.file_format is kind
    racks = {host.name: host.rack for host in found.hosts}
    assert racks == {
        node.name: node.rack if node.rack != "r03" else f"r03-{1 if node.domain == A else 2}" for node in given.nodes
    }
    if kind is InventoryFormat.SLURM_YAML:
        assert {host.places["switch"] for host in found.hosts} == {"b1", "b2", "b3"}
        assert found.warnings == ()


def test_equal_names_in_two_levels_are_two_switches() -> None:
    text = 'name: h\nlevels: [zone, block, rack]\nracks:\n  r1: {zone: a, block: a, nodes: "n[1-2]"}\n'
    assert "switch: zone-a" in topology_yaml(fleet(text)).text
    assert "switch: block-a" in topology_yaml(fleet(text)).text


def test_inventory_without_racks_is_refused() -> None:
    with pytest.raises(SpecError, match="the racks of all nodes are unknown"):
        topology_conf(fleet('name: h\nracks:\n  unsorted: {nodes: "n[1-2]"}\n'))


@pytest.mark.parametrize(
    ("names", "text"),
    [
        pytest.param(["r1n1", "r1n2", "r2n1"], "r1n[1-2],r2n1", id="one bracket, at the end"),
        pytest.param(["a1.x", "a2.x"], "a1.x,a2.x", id="nothing behind a bracket"),
        pytest.param(["n09", "n10", "n11"], "n[09-11]", id="padding"),
        pytest.param(["10", "11"], "10,11", id="numbers alone"),
    ],
)
def test_names_are_folded_to_a_host_list_of_slurm(names: list[str], text: str) -> None:
    assert slurm_list(names) == text
