"""A refused placement as text and as JSON."""

import sys
from collections.abc import Iterator, Mapping, Sequence

from launcher.api.cost import describe_straddling
from launcher.cli.output.console import Colour, clean, paint
from launcher.cli.output.cost import straddling_lines
from launcher.cli.output.table import table
from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL
from launcher.core.model.nodeset import fold, fold_messages
from launcher.core.model.placement import Exclusion, RackAvailability, Shortfall
from launcher.core.model.text import count
from launcher.core.planner.straddle import Straddling
from launcher.store.plain import plain


def shortfall_lines(shortfall: Shortfall, straddling: Sequence[Straddling] = ()) -> Iterator[str]:
    """Return the lines of a refusal; racks with equal answers share a row."""
    yield clean(f"  requested: {_requested(shortfall)}")
    yield clean(f"  fits now: {_fits(shortfall)}")
    if not shortfall.proven:
        yield "  search limit reached: a placement may exist"
    yield table((level_header(shortfall.within), "NODES", "FREE", "NOT FREE"), _rows(shortfall.racks), indent="  ")
    yield from straddling_lines(straddling)
    for names, message in fold_messages(shortfall.unhealthy.items()):
        yield clean(f"  {names}: {message}")
    for at, suggestion in enumerate(shortfall.suggestions):
        lead = "or" if at else "to make it fit,"
        yield f"{paint('hint', Colour.POINTER, sys.stderr)}: {clean(f'{lead} {suggestion}')}"


def shortfall_json(shortfall: Shortfall, straddling: Sequence[Straddling] = ()) -> dict[str, object]:
    """Return a refusal as `plan -o json` writes it."""
    colocated = shortfall.colocated_groups
    return {
        "group": shortfall.group,
        "slices": shortfall.slices,
        "nodes_per_slice": shortfall.nodes_per_slice,
        "spares": shortfall.spares,
        "spares_per_rack": shortfall.spares_per_rack,
        "within": shortfall.within,
        "placed": shortfall.placed,
        "largest": shortfall.largest,
        "proven": shortfall.proven,
        "racks": [availability_json(rack) for rack in shortfall.racks],
        "unhealthy": dict(shortfall.unhealthy),
        "suggestions": list(shortfall.suggestions),
        **({"colocated_groups": list(colocated)} if colocated else {}),
        **({"straddling": [plain(describe_straddling(one)) for one in straddling]} if straddling else {}),
    }


def availability_json(rack: RackAvailability) -> dict[str, object]:
    """Return the availability of a rack as `plan -o json` writes it."""
    return {
        "rack": rack.rack,
        "total": rack.total,
        "free": rack.free,
        "excluded": {reason.name.lower(): number for reason, number in rack.excluded.items()},
        "users": dict(rack.users),
        "accelerators": dict(rack.accelerators),
        **({"reserved": dict(rack.reserved)} if rack.reserved else {}),
    }


def level_header(within: str) -> str:
    """Return the header of a column of domains; `node` and `any` list racks."""
    return (RACK_LEVEL if within in (NODE_LEVEL, ANY_LEVEL) else within).upper()


def not_free(rack: RackAvailability) -> str:
    """Return why nodes of a rack are not free, and how many for each reason."""
    return ", ".join(f"{number} {_excluded(reason, rack)}" for reason, number in rack.excluded.items())


def _excluded(reason: Exclusion, rack: RackAvailability) -> str:
    if reason is Exclusion.IN_USE and rack.users:
        return f"in use by {_runs(rack.users)}"
    if reason is Exclusion.RESERVED and rack.reserved:
        return f"reserved for {_runs(rack.reserved)}"
    if reason is Exclusion.ACCELERATOR and rack.accelerators:
        return f"{reason.value} ({', '.join(rack.accelerators)})"
    return reason.value


def _runs(nodes: Mapping[str, int]) -> str:
    """Return runs, and how many nodes each has if they are several."""
    if len(nodes) == 1:
        return f"`{next(iter(nodes))}`"
    return ", ".join(f"`{run}` ({number})" for run, number in nodes.items())


def _requested(shortfall: Shortfall) -> str:
    parts = [f"{count(shortfall.slices, 'slice')} of {count(shortfall.nodes_per_slice, 'node')}"]
    if shortfall.spares:
        parts[0] += f" and {count(shortfall.spares, 'spare')}"
    each = "each " if shortfall.slices > 1 else ""
    if shortfall.within == NODE_LEVEL:
        parts.append(f"{each}on one node")
    elif shortfall.within != ANY_LEVEL:
        parts.append(f"{each}in one {shortfall.within}")
    if shortfall.spares_per_rack:
        parts.append(f"{count(shortfall.spares_per_rack, 'spare')} per rack")
    if shortfall.colocated_groups:
        names = ", ".join(f"`{name}`" for name in shortfall.colocated_groups)
        parts.append(f"with room for {names} on the same nodes")
    return ", ".join(parts)


def _fits(shortfall: Shortfall) -> str:
    fits = f"{shortfall.placed} of {count(shortfall.slices, 'slice')}"
    need = shortfall.nodes_per_slice + shortfall.spares
    if shortfall.largest >= need:
        return fits
    if shortfall.within in (NODE_LEVEL, ANY_LEVEL):
        return f"{fits}; a slice needs {count(need, 'free node')}, the inventory has {shortfall.largest}"
    return (
        f"{fits}; a slice needs {count(need, 'free node')} in one {shortfall.within}, the best has {shortfall.largest}"
    )


def _rows(racks: Sequence[RackAvailability]) -> list[tuple[str, str, str, str]]:
    same: dict[tuple[str, str, str], list[str]] = {}
    for rack in racks:
        same.setdefault((str(rack.total), str(rack.free), not_free(rack)), []).append(rack.rack)
    return [(fold(names), *columns) for columns, names in same.items()]
