"""Which inventory is used, and how it is read."""

from dataclasses import replace
from pathlib import Path

import pytest

from launcher.config.inventory.built_in import built_in
from launcher.config.inventory.fields import INVENTORY
from launcher.config.inventory.read import find_inventory, read_inventory
from launcher.core.model.inventory import Inventory, Transport
from launcher.core.model.simulation import SimSettings
from launcher.errors import SpecError

ROOT = Path(__file__).parents[4]


def fleet(folder: Path, name: str, text: str = "racks: {r1: {nodes: a}}") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_inventory_is_that_of_the_option_then_environment_then_home_then_built_in(tmp_path: Path) -> None:
    given, named = fleet(tmp_path, "given.yaml"), fleet(tmp_path, "named.yaml")
    env = {"NVLAUNCH_INVENTORY": str(named)}
    assert find_inventory(None, {"NVLAUNCH_INVENTORY": ""}, tmp_path) == built_in()
    own = fleet(tmp_path, "inventory.yaml")
    assert find_inventory(None, {}, tmp_path).source == str(own)
    assert find_inventory(None, env, tmp_path).source == str(named)
    assert find_inventory(str(given), env, tmp_path).source == str(given)
    assert find_inventory("built-in", env, tmp_path) == built_in()


def test_empty_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="the name of the inventory is empty"):
        find_inventory("", {}, tmp_path)


def test_hint_for_a_missing_file_names_the_variable(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as refusal:
        find_inventory(None, {"NVLAUNCH_INVENTORY": str(tmp_path / "x.yaml")}, tmp_path)
    assert "$NVLAUNCH_INVENTORY names this file" in str(refusal.value.mistakes[0])


def test_built_in_inventory_equals_the_example_file() -> None:
    assert replace(read_inventory(ROOT / "examples" / "local-racks.yaml"), source="built-in") == built_in()
    assert (built_in().source, built_in().transport) == ("built-in", Transport.LOCAL)


def test_local_nodes_have_unique_addresses(tmp_path: Path) -> None:
    racks = "".join(f"  r{rack}: {{nodes: 'r{rack}-n[1-9]'}}\n" for rack in range(300))
    nodes = read_inventory(fleet(tmp_path, "l.yaml", f"transport: local\nracks:\n{racks}")).nodes
    addresses = {node.access.address for node in nodes}
    assert len(addresses) == 2700
    assert all(0 <= int(part) <= 255 for address in addresses for part in address.split("."))


def test_defaults_of_the_table_equal_those_of_the_core_types(tmp_path: Path) -> None:
    inventory = read_inventory(fleet(tmp_path, "s.yaml", "transport: sim\nracks: {r1: {nodes: a}}"))
    plain = Inventory(name="s", transport=Transport.SIM, nodes=(), sim=SimSettings())
    assert replace(inventory, nodes=(), source=plain.source) == plain
    sim = {name: row.default for name, row in INVENTORY.fields["sim"].type.fields.items() if name != "faults"}
    assert SimSettings(**{**sim, "speed": float(sim["speed"])}) == SimSettings()


def test_inventory_of_ten_thousand_nodes_is_read(tmp_path: Path) -> None:
    lines = ["racks:"]
    for rack in range(556):
        lines += [f"  r{rack}:", "    nodes:"]
        lines += [f"      r{rack}-n{n}: {{address: 10.{rack // 250}.{rack % 250}.{n}, tray: {n}}}" for n in range(18)]
    assert len(read_inventory(fleet(tmp_path, "big.yaml", "\n".join(lines))).nodes) == 10_008


def test_quiet_hours_end_at_midnight_and_are_not_empty(tmp_path: Path) -> None:
    text = "racks: {r1: {nodes: a}}\ndefrag: {quiet_hours: [%s]}"
    assert read_inventory(fleet(tmp_path, "a.yaml", text % '"22:00-24:00"')).defrag.quiet_hours == ((1320, 1440),)
    with pytest.raises(SpecError, match="`quiet_hours` begin and end at the same time") as refused:
        read_inventory(fleet(tmp_path, "a.yaml", text % '"08:00-18:00", "08:00-08:00"'))
    assert refused.value.hints == ("to switch moves off, write `budget_gpu_hours_per_day: 0`",)
    with pytest.raises(SpecError, match="hours such as"):
        read_inventory(fleet(tmp_path, "a.yaml", text % '"24:00-08:00"'))
