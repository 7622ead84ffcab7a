"""Reported locations, and what is written of them into an inventory."""

import difflib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.config.inventory.amend import amended
from launcher.config.inventory.read import parse_inventory
from launcher.core.discovery.location import NodeLocation, amend
from launcher.core.model.nodeset import NodeName
from launcher.errors import SpecError
from tests.effort import drawn

PATH = Path("inventory.yaml")
A = "1f0c5d3a-7a34-4a0e-9b57-0d7c1b2a3e41.32766"
B = "8e2b9f60-3c1d-4f7e-a6b8-5d4c3b2a1908.32766"

Reported = dict[str, NodeLocation]


def at(chassis: str | None = None, tray: int | None = None, domain: str | None = None, **more: object) -> NodeLocation:
    return NodeLocation(chassis=chassis, tray=tray, domain=domain, gpus=4, **more)  # type: ignore[arg-type]


def run(text: str, reported: Reported) -> str:
    fleet = parse_inventory(text, PATH)
    return amended(text, PATH, amend(fleet, {NodeName(name): one for name, one in reported.items()}))


def changes(text: str, reported: Reported) -> list[str]:
    """Only the lines that came or went."""
    lines = difflib.unified_diff(text.splitlines(), run(text, reported).splitlines(), lineterm="", n=0)
    return [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]


HALL = """\
# hall 3, see ticket 12
name:   hall
levels: [block,  rack]     # aligned by hand
racks:
  r01: {block: b1,  nodes: "r01-n[01-03]"}   # the old one
  # delivered in May
  r02:
    block: b1
    nodes:
      r02-n01: {address: 10.0.2.1}   # by the door
      # mind the cable
      r02-n02:
"""


def test_a_rack_that_reports_one_domain_gets_it_and_no_other_line_changes() -> None:
    reported = {f"r01-n0{tray + 1}": at("C1", tray, A) for tray in range(3)}
    assert changes(HALL, reported) == [
        '-  r01: {block: b1,  nodes: "r01-n[01-03]"}   # the old one',
        f'+  r01: {{block: b1, domain: {A}, nodes: "r01-n[01-03]"}} # the old one',
    ]


def test_comments_between_nodes_stay_where_trays_are_written() -> None:
    reported = {"r02-n01": at("C2", 1, B), "r02-n02": at("C2", 0, B)}
    assert changes(HALL, reported) == [
        f"+    domain: {B}",
        "-      r02-n01: {address: 10.0.2.1}   # by the door",
        "+      r02-n01: {address: 10.0.2.1, tray: 1} # by the door",
        "-      r02-n02:",
        "+      r02-n02: {tray: 0}",
    ]


def test_a_node_without_a_report_keeps_its_values_and_splits_its_range() -> None:
    reported = {"r01-n01": at("C1", 0, A), "r01-n03": at("C1", 2, A)}
    after = parse_inventory(run(HALL, reported), PATH)
    assert {node.name: node.domain for node in after.nodes if node.rack == "r01"} == {
        "r01-n01": A,
        "r01-n02": None,
        "r01-n03": A,
    }


UNSORTED = """\
name: hall
defaults: {user: ubuntu}
racks:
  # The racks of the nodes below are unknown: move them to their racks.
  unsorted:
    identity_file: ~/.ssh/hall
    nodes:
      "n[1-4]":
      n9: {address: 10.0.0.9, drained: "ticket 3"}   # the noisy one
"""


def test_nodes_without_a_rack_are_sorted_by_chassis_with_their_settings_and_comments() -> None:
    reported = {
        "n1": at("SN1", 1, A),
        "n3": at("SN1", 0, A),
        "n2": at("SN2", 0, B),
        "n4": at("SN2", 1, B),
        "n9": at("SN2", 2, B),
    }
    assert run(UNSORTED, reported) == (
        "name: hall\n"
        "defaults: {user: ubuntu}\n"
        "racks:\n"
        "  SN1:\n"
        "    identity_file: ~/.ssh/hall\n"
        f"    domain: {A}\n"
        "    nodes:\n"
        "      n1: {tray: 1}\n"
        "      n3: {tray: 0}\n"
        "  SN2:\n"
        "    identity_file: ~/.ssh/hall\n"
        f"    domain: {B}\n"
        "    nodes:\n"
        "      n2:\n"
        "      n4:\n"
        '      n9: {address: 10.0.0.9, drained: "ticket 3"}   # the noisy one\n'
    )


def test_nodes_without_a_reported_rack_stay_unsorted() -> None:
    after = run(UNSORTED, {"n1": at(None, None, None), "n2": at(None, None, A)})
    fleet = parse_inventory(after, PATH)
    racks = {node.name: node.rack for node in fleet.nodes}
    assert racks == {"n1": "unsorted", "n2": A.partition(".")[0], "n3": "unsorted", "n4": "unsorted", "n9": "unsorted"}
    assert "# The racks of the nodes below are unknown" in after


def test_an_unsorted_node_joins_the_rack_that_reports_the_same_chassis() -> None:
    text = 'name: h\nracks:\n  r07: {nodes: "a[1-2]"}\n  unsorted: {nodes: "b1"}\n'
    reported = {"a1": at("SN1", 0, A), "a2": at("SN1", 1, A), "b1": at("SN1", 2, A)}
    fleet = parse_inventory(run(text, reported), PATH)
    assert {(node.name, node.rack, node.tray) for node in fleet.nodes} == {
        ("a1", "r07", 0),
        ("a2", "r07", 1),
        ("b1", "r07", 2),
    }


def test_a_named_rack_keeps_its_nodes_and_other_reports_conflict() -> None:
    fleet = parse_inventory(HALL, PATH)
    reported = {NodeName("r01-n01"): at("C1"), NodeName("r01-n02"): at("C1"), NodeName("r01-n03"): at("C2")}
    wanted = amend(fleet, {**reported, NodeName("r02-n01"): at("C2")})
    assert not wanted.racks
    assert wanted.conflicts == (
        "rack `r01` has nodes of 2 chassis: r01-n[01-02] in `C1`; r01-n03 in `C2`",
        "chassis `C2` has nodes in 2 racks: `r01` (r01-n03), `r02` (r02-n01)",
    )


def test_two_nodes_that_report_one_tray_get_none() -> None:
    fleet = parse_inventory(HALL, PATH)
    wanted = amend(fleet, {NodeName("r02-n01"): at("C2", 5), NodeName("r02-n02"): at("C2", 5)})
    assert not wanted.trays
    assert wanted.conflicts == ("r02-n[01-02] in rack `r02` report the same tray, 5; its trays are not written",)


def test_the_accelerator_is_written_if_the_file_has_none_and_all_nodes_agree() -> None:
    reported = {"r01-n01": at(accelerator="GB300"), "r02-n01": at(accelerator="GB300")}
    assert changes(HALL, reported) == ["+defaults: {accelerator: GB300}"]


def test_a_name_that_another_program_takes_for_a_number_is_refused_with_what_to_do() -> None:
    text = "name: h\nracks:\n  07: {nodes: n1}\n"
    with pytest.raises(SpecError) as refusal:
        run(text, {"n1": at("SN1", 0, A)})
    assert refusal.value.mistakes[0].hint == 'quote it: "7"'


names = [f"n{number:02d}" for number in range(1, 7)]
places = st.builds(
    at,
    chassis=st.sampled_from([None, "C1", "C2", "123"]),
    tray=st.sampled_from([None, 0, 1, 2, 3]),
    domain=st.sampled_from([None, A, B]),
)


@st.composite
def inventories(draw: st.DrawFn) -> str:
    """Six nodes over some racks, each rack written in one of the ways there are, with comments between the lines."""
    racks = draw(st.lists(st.sampled_from(["r1", "unsorted", "unsorted-s1"]), min_size=6, max_size=6))
    text = "# begin\nname: h\nracks:\n"
    for rack in sorted(set(racks)):
        mine = [name for name, where in zip(names, racks, strict=True) if where == rack]
        text += f"  # before {rack}\n"
        match draw(st.sampled_from(["flow", "list", "mapping", "settings"])):
            case "flow":
                text += f'  {rack}: {{user: u,   nodes: "{",".join(mine)}"}}  # {rack}\n'
            case "list":
                text += f"  {rack}:\n    nodes:\n" + "".join(f"    - {name}   # of {name}\n" for name in mine)
            case "mapping":
                text += f"  {rack}:\n      nodes:\n" + "".join(f"          {name}:   # of {name}\n" for name in mine)
            case _:
                lines = (f"      {name}: {{gpus: 8, domain: {A}}} # of {name}\n" for name in mine)
                text += f"  {rack}:\n    nodes:\n{''.join(lines)}"
    return text + "# end\n"


@drawn(30)
@given(inventories(), st.dictionaries(st.sampled_from(names), places, max_size=6))
def test_reports_are_written_and_nothing_else_changes_or_nothing_is_written(text: str, reported: Reported) -> None:
    fleet = parse_inventory(text, PATH)
    wanted = amend(fleet, {NodeName(name): one for name, one in reported.items()})
    try:
        after = amended(text, PATH, wanted)
    except SpecError:
        return
    again = parse_inventory(after, PATH)
    before = {node.name: node for node in fleet.nodes}
    assert {node.name for node in again.nodes} == before.keys()
    for node in again.nodes:
        assert node.rack == wanted.racks.get(node.name, before[node.name].rack)
        assert node.domain == wanted.domains.get(node.name, before[node.name].domain)
        assert (node.access, node.gpus) == (before[node.name].access, before[node.name].gpus)
    assert "# begin" in after
    assert "# end" in after
    assert {line.partition("# of ")[2] for line in text.splitlines()} <= {
        line.partition("# of ")[2] for line in after.splitlines()
    }


@drawn(30)
@given(inventories(), st.dictionaries(st.sampled_from(names), places, max_size=6))
def test_written_values_are_not_written_again(text: str, reported: Reported) -> None:
    known = {NodeName(name): one for name, one in reported.items()}
    try:
        after = amended(text, PATH, amend(parse_inventory(text, PATH), known))
    except SpecError:
        return
    second = amend(parse_inventory(after, PATH), known)
    assert not second.domains
    assert not second.racks
