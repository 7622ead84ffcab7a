"""A placement to prose and to JSON: which slice in which rack, which spares, and why there."""

from collections.abc import Iterator

from launcher.cli.console import clean
from launcher.cli.table import table
from launcher.core.fleet import Inventory, Transport
from launcher.core.nodeset import fold
from launcher.core.nouns import count
from launcher.core.placement import Placement


def fleet_text(fleet: Inventory) -> str:
    """Answer which inventory is used."""
    racks = len({node.rack for node in fleet.nodes})
    size = f"{count(racks, 'rack')}, {count(len(fleet.nodes), 'node')}"
    kind = "sim: imaginary, no program runs" if fleet.transport is Transport.SIM else fleet.transport.value
    return clean(f"inventory `{fleet.name}` ({fleet.source}, {kind}): {size}")


def plan_text(name: str, placement: Placement) -> str:
    """Answer the plan as a table of slices, node names folded."""
    return "\n".join(_plan(name, placement))


def plan_json(name: str, fleet: Inventory, placement: Placement) -> dict[str, object]:
    """Answer the plan as `plan -o json` writes it."""
    return {
        "name": name,
        "inventory": fleet.name,
        "slices": [
            {
                "group": part.group,
                "slice": part.index,
                "place": part.place,
                "rack": part.rack,
                "domain": part.domain,
                "nodes": part.nodes,
                "spares": part.spares,
            }
            for part in placement.slices
        ],
        "why": placement.why,
    }


def _plan(name: str, placement: Placement) -> Iterator[str]:
    members = sum(len(part.nodes) for part in placement.slices)
    spares = sum(len(part.spares) for part in placement.slices)
    kept = f", {count(spares, 'spare')}" if spares else ""
    yield clean(f"plan for `{name}`: {count(len(placement.slices), 'slice')}, {count(members, 'node')}{kept}")
    rows = [(part.key, part.rack or part.place, fold(part.nodes), fold(part.spares)) for part in placement.slices]
    yield table(("SLICE", "RACK", "NODES", "SPARES"), rows, indent="  ")
    for why in placement.why:
        yield clean(f"  {why}")
