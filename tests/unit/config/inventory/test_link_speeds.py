"""Link speeds of an inventory: defaults, racks, and kinds of GPU without measured figures."""

from pathlib import Path

import pytest

from launcher.config.inventory.fields import RACK
from launcher.config.inventory.read import parse_inventory
from launcher.core.model.inventory import Inventory, RackName
from launcher.core.model.traffic import LinkSpeeds
from launcher.store.codec import dump, load

R1, R2 = RackName("r1"), RackName("r2")


def read(text: str) -> Inventory:
    return parse_inventory(f"transport: sim\n{text}", Path("f.yaml"))


def test_racks_without_keys_have_the_defaults() -> None:
    inventory = read("racks: {r1: {nodes: a}}")
    assert (inventory.links, inventory.link_speeds(R1)) == ({}, LinkSpeeds())
    assert RACK.fields["network_gb_s"].default == LinkSpeeds().network


def test_a_rack_overrides_the_defaults_of_the_file() -> None:
    inventory = read("defaults: {network_gb_s: 100}\nracks: {r1: {nodes: a}, r2: {nodes: b, network_gb_s: 25}}")
    assert inventory.links == {R1: LinkSpeeds(network=100), R2: LinkSpeeds(network=25)}


def test_one_number_sets_the_other_collectives_in_proportion() -> None:
    found = read("racks: {r1: {nodes: a, nvlink_gb_s: 420}}").link_speeds(R1)
    assert found == LinkSpeeds(all_reduce=420, all_gather=300, all_to_all=285)


def test_a_mapping_sets_single_collectives() -> None:
    found = read("racks: {r1: {nodes: a, nvlink_gb_s: {all_reduce: 923, all_to_all: 678}}}").link_speeds(R1)
    assert found is not None
    assert (found.all_reduce, found.all_to_all) == (923, 678)
    assert found.all_gather == pytest.approx(600 * 923 / 840)


def test_kinds_that_were_not_measured_need_figures() -> None:
    text = "defaults: {accelerator: H100}\nracks: {r1: {nodes: a}, r2: {nodes: b, nvlink_gb_s: 480}}"
    inventory = read(text)
    assert inventory.link_speeds(R1) is None
    assert inventory.link_speeds(R2) is not None
    assert read("racks: {r1: {nodes: a, accelerator: gb200, network_gb_s: 100}}").link_speeds(R1) is not None


def test_speeds_are_stored_with_a_run() -> None:
    inventory = read("defaults: {nvlink_gb_s: 900}\nracks: {r1: {nodes: a}, r2: {nodes: b, nvlink_gb_s: 480}}")
    assert load(Inventory, dump(Inventory, inventory)) == inventory
    unknown = read("racks: {r1: {nodes: a, accelerator: H100}}")
    assert load(Inventory, dump(Inventory, unknown)) == unknown
