"""A refusal to prose: what was asked, what each rack has, and what would make it fit."""

import sys
from collections.abc import Iterator

from launcher.cli.output.console import Colour, clean, paint
from launcher.cli.output.table import table
from launcher.core.model.inventory import ANY_LEVEL
from launcher.core.model.nodeset import alike, fold
from launcher.core.model.placement import RackAnswer, Shortfall
from launcher.core.model.text import count


def shortfall_lines(lack: Shortfall) -> Iterator[str]:
    """Return the lines; racks that answered the same stand in one row."""
    yield clean(_asked(lack))
    if not lack.proven:
        yield "  it was searched for as long as is reasonable: there may be a placement that was not found"
    yield table(("RACK", "NODES", "FREE", "NOT FREE"), _rows(lack.racks), indent="  ")
    for names, words in alike(lack.sick.items()):
        yield clean(f"  {names}: {words}")
    for change in lack.changes:
        yield f"{paint('hint', Colour.POINTER, sys.stderr)}: {clean(f'this would make it fit: {change}')}"


def _asked(lack: Shortfall) -> str:
    each = count(lack.nodes_per_slice, "node") + (f" and {count(lack.spares, 'spare')}" if lack.spares else "")
    each += f", {count(lack.spares_per_rack, 'spare')} a rack" if lack.spares_per_rack else ""
    where = "wherever there is room" if lack.within == ANY_LEVEL else f"each inside one {lack.within}"
    asked = f"it asks for {count(lack.slices, 'slice')} of {each}, {where}"
    if lack.guests:
        asked += f", on nodes with room for {', '.join(f'`{name}`' for name in lack.guests)} beside it"
    fits = f"{lack.placed} found a place" if lack.placed else "none found a place"
    return f"  {asked}: {fits}; the largest slice that fits now has {count(lack.largest, 'node')}"


def _rows(racks: tuple[RackAnswer, ...]) -> list[tuple[str, str, str, str]]:
    same: dict[tuple[str, str, str], list[str]] = {}
    for answer in racks:
        same.setdefault((str(answer.total), str(answer.free), not_free(answer)), []).append(answer.rack)
    return [(fold(names), *said) for said, names in same.items()]


def not_free(answer: RackAnswer) -> str:
    """Return why nodes of a place are not free, with how many of each."""
    parts = [f"{number} {why.value}{_by(answer, why.name)}" for why, number in answer.excluded.items()]
    return ", ".join(parts)


def _by(answer: RackAnswer, why: str) -> str:
    match why:
        case "IN_USE" if answer.users:
            return " by " + ", ".join(f"`{name}` ({number})" for name, number in answer.users.items())
        case "KIND" if answer.kinds:
            return f" ({', '.join(answer.kinds)})"
        case _:
            return ""


def shortfall_json(lack: Shortfall) -> dict[str, object]:
    """Return a refusal as `plan -o json` writes it."""
    return {
        "group": lack.group,
        "slices": lack.slices,
        "nodes_per_slice": lack.nodes_per_slice,
        "spares": lack.spares,
        "spares_per_rack": lack.spares_per_rack,
        "within": lack.within,
        "placed": lack.placed,
        "largest": lack.largest,
        "proven": lack.proven,
        "racks": [offer_json(answer) for answer in lack.racks],
        "sick": dict(lack.sick),
        "changes": list(lack.changes),
        **({"guests": list(lack.guests)} if lack.guests else {}),
    }


def offer_json(answer: RackAnswer) -> dict[str, object]:
    """Return what a place offered, as `plan -o json` writes it."""
    return {
        "rack": answer.rack,
        "total": answer.total,
        "free": answer.free,
        "excluded": {why.name.lower(): number for why, number in answer.excluded.items()},
        "users": dict(answer.users),
        "kinds": dict(answer.kinds),
    }
