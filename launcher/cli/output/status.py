"""Snapshots of runs as tables."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.cli.output.console import clean
from launcher.cli.output.table import table
from launcher.store.home import home

ROWS = 40
"""How many rows a run is shown in at most, slice by slice."""
FEW = 8
"""How many slices in one state still have a row each beyond that."""

Snapshot = Mapping[str, Any]

_Shape = Mapping[str, type | tuple[type, ...]]

_NUMBER = (int, float)
# The fields that the text needs of a snapshot, of its ranks and of its spares.
_RUN: _Shape = {
    "name": str,
    "id": str,
    "inventory": str,
    "state": str,
    "status_message": str,
    "attempt": _NUMBER,
    "restarts": _NUMBER,
    "since": _NUMBER,
    "observed_at": _NUMBER,
    "ranks": list,
    "spares": list,
    "user": str,
    "submit_host": str,
}
_RANK: _Shape = {
    "group": str,
    "slice": _NUMBER,
    "rank": _NUMBER,
    "node": str,
    "rack": str,
    "state": str,
    "exit_code": (int, type(None)),
}
_GROUP: _Shape = {
    "group": str,
    "slices": _NUMBER,
    "min_slices": _NUMBER,
    "max_slices": _NUMBER,
    "reason": (str, type(None)),
}
_SPARE: _Shape = {"slice": str, "node": str, "rack": str}


def checked_snapshot(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot; ValueError where it lacks a field that is shown."""
    parts: list[tuple[Any, _Shape]] = [(snapshot, _RUN)]
    parts += [(rank, _RANK) for rank in snapshot.get("ranks") or ()]
    parts += [(spare, _SPARE) for spare in (*(snapshot.get("spares") or ()), *(snapshot.get("drained") or ()))]
    parts += [(group, _GROUP) for group in snapshot.get("slices") or ()]
    for part, shape in parts:
        for name, kind in shape.items():
            if not isinstance(part, dict) or not isinstance(part.get(name, ...), kind):
                raise ValueError(f"the snapshot of a run lacks `{name}`")
    return snapshot


def runs_text(snapshots: Sequence[Snapshot], now: float) -> str:
    """Return one row for each run, with its id where the name means a newer run.

    `now` in seconds since the epoch.
    """
    header = ("NAME", "ID", "STATE", "RANKS", "RACKS", "RESTARTS", "FOR", "MESSAGE")
    newest = {snapshot["name"]: snapshot["id"] for snapshot in snapshots}
    return table(header, [_run(snapshot, now, newest[snapshot["name"]]) for snapshot in snapshots])


def run_text(snapshot: Snapshot, now: float) -> str:
    """Return one run: a summary, its ranks, its spares.

    Equal ranks of a slice share a row, and so do equal slices where there are many.
    """
    return "\n".join(_details(snapshot, now))


def age(seconds: float) -> str:
    """Return a duration in its two largest units: `3m12s`."""
    left = max(0, int(seconds))
    for size, unit, small, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if left >= size:
            return f"{left // size}{unit}{left % size // small:02}{smaller}"
    return f"{left}s"


def _run(snapshot: Snapshot, now: float, newest: str) -> tuple[str, ...]:
    from launcher.core.model.nodeset import fold

    ranks = snapshot["ranks"]
    up = sum(rank["state"] in ("running", "finished") for rank in ranks)
    return (
        snapshot["name"],
        "" if snapshot["id"] == newest else snapshot["id"],
        snapshot["state"],
        f"{up}/{len(ranks)}" if ranks else "",
        fold({rank["rack"] for rank in ranks}),
        str(snapshot["restarts"] or ""),
        age(now - snapshot["since"]),
        snapshot["status_message"],
    )


def _details(snapshot: Snapshot, now: float) -> Iterator[str]:
    from launcher.core.model.text import count

    user = f"{snapshot['user']}@{snapshot['submit_host']}"
    yield clean(f"{snapshot['name']} ({snapshot['id']}) on `{snapshot['inventory']}`, started by {user}")
    yield clean(f"{snapshot['state']} for {age(now - snapshot['since'])}: {snapshot['status_message']}")
    if not snapshot["ranks"]:  # queued: it has no nodes
        return
    updated = age(now - snapshot["observed_at"])
    yield f"attempt {snapshot['attempt']}, {count(snapshot['restarts'], 'restart')}, updated {updated} ago"
    if isinstance(workdir := snapshot.get("workdir"), str):
        yield clean(f"workdir: {workdir}")
    for one in snapshot.get("slices") or ():
        why = f": {one['reason']}" if one["reason"] else ""
        most, least = count(one["max_slices"], "slice"), one["min_slices"]
        yield clean(f"{one['group']}: {one['slices']} of {most}, at least {least}{why}")
    yield from map(clean, dashboard_lines(snapshot))
    yield ""
    yield table(("SLICE", "RACK", "STATE", "RANKS", "NODES", "EXIT"), [_row(one) for one in _folded(_slices(snapshot))])


def dashboard_lines(snapshot: Snapshot) -> Iterator[str]:
    """Return how Ray's dashboard is reached, and where its token is; nothing for a run without one."""
    if not (shown := snapshot.get("dashboard")):
        return
    yield f"Ray dashboard: {shown}"
    if not shown.startswith("none"):
        yield f"token for it and for `ray job submit`: {home() / 'runs' / snapshot['id'] / 'token'}"


@dataclass(frozen=True, slots=True)
class _Part:
    """Ranks of slices in one state, or spares: the slices, their racks, the numbers of the ranks, and the nodes."""

    slices: tuple[str, ...]
    racks: tuple[str, ...]
    state: str
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    code: str = ""


def _row(part: _Part) -> tuple[str, ...]:
    from launcher.core.model.nodeset import fold

    numbers = fold(f"#{rank}" for rank in part.ranks).replace("#", "").strip("[]")
    nodes = fold(part.nodes) if len(part.slices) == 1 else f"{len(part.nodes)} nodes"
    return fold(part.slices), fold(part.racks), part.state, numbers, nodes, part.code


def _folded(parts: Sequence[_Part]) -> Sequence[_Part]:
    """Return one row for all slices of a group in one state, where a list of them is too long to read.

    States that few slices are in keep a row for each: those are what somebody looks for.
    """
    if len(parts) <= ROWS:
        return parts
    alike: dict[tuple[str, str, str], list[_Part]] = {}
    for part in parts:
        alike.setdefault((part.slices[0].rpartition(".")[0], part.state, part.code), []).append(part)
    found: list[_Part] = []
    for same in alike.values():
        found += same if len(same) <= FEW else [_joined(same)]
    return found


def _joined(parts: Sequence[_Part]) -> _Part:
    return _Part(
        slices=tuple(dict.fromkeys(name for part in parts for name in part.slices)),
        racks=tuple(dict.fromkeys(name for part in parts for name in part.racks)),
        state=parts[0].state,
        ranks=tuple(rank for part in parts for rank in part.ranks),
        nodes=tuple(name for part in parts for name in part.nodes),
        code=parts[0].code,
    )


def _slices(snapshot: Snapshot) -> list[_Part]:
    from launcher.core.model.placement import slice_key

    alike: dict[tuple[str, str, str, str], list[Mapping[str, Any]]] = {}
    for rank in snapshot["ranks"]:
        code = "" if rank["exit_code"] is None else str(rank["exit_code"])
        ready = {True: ", ready", False: ", not ready"}.get(rank.get("ready"), "")
        key = slice_key(rank["group"], rank["slice"]), rank["rack"], f"{rank['state']}{ready}", code
        alike.setdefault(key, []).append(rank)
    found = [
        _Part((part,), (rack,), state, tuple(one["rank"] for one in ranks), tuple(one["node"] for one in ranks), code)
        for (part, rack, state, code), ranks in alike.items()
    ]
    for state, unused in (("spare", snapshot["spares"]), ("drained", snapshot.get("drained") or ())):
        nodes: dict[tuple[str, str], list[str]] = {}
        for one in unused:
            nodes.setdefault((one["slice"], one["rack"]), []).append(one["node"])
        found += [_Part((part,), (rack,), state, (), tuple(names)) for (part, rack), names in nodes.items()]
    return found


def clock(at: float) -> str:
    """Return the local time of day of an instant (s since the epoch)."""
    return time.strftime("%H:%M:%S", time.localtime(at))
