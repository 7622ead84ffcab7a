"""A placement to prose and to JSON: which slice in which rack, which spares, and why there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from launcher.cli.output.console import clean
from launcher.cli.output.shortfall import not_free, offer_json
from launcher.cli.output.table import table
from launcher.core.model.inventory import Inventory, Transport
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.placement import Placement, Taken
from launcher.core.model.text import count
from launcher.core.placement.explain import Surveyed
from launcher.core.placement.fragmentation import fragmentation


def fleet_text(fleet: Inventory) -> str:
    """Return which inventory is used."""
    racks = len({node.rack for node in fleet.nodes})
    size = f"{count(racks, 'rack')}, {count(len(fleet.nodes), 'node')}"
    kind = "sim: imaginary, no program runs" if fleet.transport is Transport.SIM else fleet.transport.value
    return clean(f"inventory `{fleet.name}` ({fleet.source}, {kind}): {size}")


@dataclass(frozen=True, slots=True)
class Wear:
    """Slurm's fragmentation score of the inventory before and after a placement."""

    before: int
    after: int


def wear(fleet: Inventory, taken: Mapping[NodeName, Taken], placement: Placement) -> Wear:
    """Return what a placement does to the score."""
    placed = {*taken, *placement.nodes}
    return Wear(before=fragmentation(fleet, taken), after=fragmentation(fleet, placed))


def wear_text(score: Wear) -> str:
    """Return the score as a line."""
    return f"  fragmentation (Slurm's score, 0 is none): {score.before} before, {score.after} after"


def survey_text(surveyed: Sequence[Surveyed]) -> str:
    """Return a table a group: what each place offered, and why it was chosen or not; equal places in one row."""
    return "\n".join(_surveyed(surveyed))


def _surveyed(surveyed: Sequence[Surveyed]) -> Iterator[str]:
    for group in dict.fromkeys(one.group for one in surveyed):
        same: dict[tuple[str, ...], list[str]] = {}
        for one in surveyed:
            if one.group == group:
                said = (f"{one.offer.free}/{one.offer.total}", str(one.left), one.why, not_free(one.offer))
                same.setdefault(said, []).append(one.offer.rack)
        rows = [(fold(racks), *said) for said, racks in same.items()]
        yield clean(f"why, for `{group}`:")
        yield table(("RACK", "FREE", "LEFT", "WHY", "NOT FREE"), rows, indent="  ")


def survey_json(surveyed: Sequence[Surveyed]) -> list[dict[str, object]]:
    """Return the same as `plan -v -o json` writes it."""
    return [
        {"group": one.group, **offer_json(one.offer), "left": one.left, "slices": one.slices, "why": one.why}
        for one in surveyed
    ]


def plan_text(name: str, placement: Placement) -> str:
    """Return the plan as a table of slices, node names folded."""
    return "\n".join(_plan(name, placement))


def plan_json(name: str, fleet: Inventory, placement: Placement, score: Wear) -> dict[str, object]:
    """Return the plan as `plan -o json` writes it."""
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
        "fragmentation": {"before": score.before, "after": score.after},
    }


def _plan(name: str, placement: Placement) -> Iterator[str]:
    members = len({name for part in placement.slices for name in part.nodes})
    spares = len({name for part in placement.slices for name in part.spares})
    kept = f", {count(spares, 'spare')}" if spares else ""
    yield clean(f"plan for `{name}`: {count(len(placement.slices), 'slice')}, {count(members, 'node')}{kept}")
    rows = [(part.key, part.rack or part.place, fold(part.nodes), fold(part.spares)) for part in placement.slices]
    yield table(("SLICE", "RACK", "NODES", "SPARES"), rows, indent="  ")
    for why in placement.why:
        yield clean(f"  {why}")
