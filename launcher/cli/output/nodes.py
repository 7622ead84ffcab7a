"""Drains, quarantines and incidents of nodes, as text and JSON."""

import time
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.admission.kept_nodes import kept_nodes
from launcher.cli.output.console import clean
from launcher.cli.output.status import age
from launcher.cli.output.table import table
from launcher.core.model.nodeset import natural
from launcher.core.model.text import count
from launcher.store.checks.history import PastCheck
from launcher.store.ledger import Drain, Incident, Quarantine

if TYPE_CHECKING:
    from launcher.store.store import Store


SHOWN = 10
"""How many results of checks are shown of a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """What the ledger has about one node, and the run that uses it now.

    `kept`: the run has released it and gets it back. `relapses` counts failures that each came within a day of a
    return, `out_until` is the end of its time out (s, wall clock), `checks` are results of checks, oldest first.
    """

    fleet: str
    node: str
    run: str | None
    drain: Drain | None
    quarantine: Quarantine | None
    incidents: tuple[Incident, ...]
    kept: bool = False
    relapses: int = 0
    out_until: float | None = None
    checks: tuple[PastCheck, ...] = ()

    @property
    def state(self) -> str:
        """Return whether the node is in service, and why not."""
        if self.quarantine:
            return "quarantined"
        if self.drain:
            return "drained"
        return "in use" if self.run else "in service"

    @property
    def why(self) -> str:
        """Return the newest message about the node."""
        if self.quarantine:
            return self.quarantine.message
        if self.drain:
            return self.drain.reason
        return self.incidents[-1].message if self.incidents else ""


def node_records(store: "Store", names: AbstractSet[str], only: str | None = None) -> tuple[NodeRecord, ...]:
    """Return the records of nodes, all for no names; of the inventory `only`, if one is named.

    By inventory, then in natural order.
    """
    found: list[NodeRecord] = []
    for fleet in store.ledger.fleets() if only is None else (only,):
        drains = {one.node: one for one in store.ledger.drains(fleet)}
        quarantines = {one.node: one for one in store.ledger.quarantines(fleet)}
        incidents = store.ledger.incidents(fleet)
        holders, kept = store.holders(fleet), kept_nodes(store, fleet)
        history, now = store.checks.history, time.time()
        listed = {*drains, *quarantines, *(one.node for one in incidents)}
        listed |= history.nodes(fleet) & names
        found += [
            NodeRecord(
                fleet=fleet,
                node=name,
                run=holders.get(name),
                drain=drains.get(name),
                quarantine=quarantines.get(name),
                incidents=tuple(one for one in incidents if one.node == name),
                kept=name in kept,
                relapses=history.relapses(fleet, name),
                out_until=history.may_return(fleet, name, now).again if name in quarantines else None,
                checks=history.of_node(fleet, name) if names else (),
            )
            for name in sorted(listed, key=natural)
            if not names or name in names
        ]
    return tuple(found)


def nodes_text(found: Sequence[NodeRecord], now: float, *, full: bool) -> str:
    """Return a table.

    With `full`: each node with all its incidents and their log lines.
    """
    if full:
        return "\n\n".join("\n".join(_whole(one, now)) for one in found)
    rows = [
        (one.node, one.fleet, one.state, one.run or "", str(len(one.incidents) or ""), _last(one, now), one.why)
        for one in found
    ]
    return table(("NODE", "INVENTORY", "STATE", "RUN", "INCIDENTS", "LAST", "REASON"), rows)


def nodes_json(found: Sequence[NodeRecord]) -> list[dict[str, object]]:
    """Return the same for `nodes -o json`."""
    return [
        {
            "node": one.node,
            "inventory": one.fleet,
            "state": one.state.replace(" ", "-"),
            "run": one.run,
            "drained": one.drain and {"reason": one.drain.reason, "at": one.drain.at, "by": one.drain.by},
            "quarantine": one.quarantine
            and {"message": one.quarantine.message, "since": one.quarantine.since, "run": one.quarantine.run},
            "relapses": one.relapses,
            "out_until": one.out_until,
            "checks": [
                {
                    "at": past.at,
                    "check": past.name,
                    "result": past.verdict.value,
                    "number": past.number,
                    "size": past.size,
                    "message": past.message,
                }
                for past in one.checks
            ],
            "incidents": [
                {
                    "at": event.at,
                    "run": event.run,
                    "kind": event.kind.value,
                    "message": event.message,
                    "evidence": list(event.evidence),
                }
                for event in one.incidents
            ],
        }
        for one in found
    ]


def _whole(one: NodeRecord, now: float) -> Iterator[str]:
    use = f", {'kept for' if one.kept else 'used by'} `{one.run}`" if one.run else ""
    yield clean(f"{one.node} of `{one.fleet}`: {one.state}{use}")
    if one.drain:
        yield clean(f"  drained {age(now - one.drain.at)} ago by {one.drain.by}: {one.drain.reason}")
    if one.quarantine:
        since = age(now - one.quarantine.since)
        by = f" by run `{one.quarantine.run}`" if one.quarantine.run else ""
        yield clean(f"  quarantined {since} ago{by}: {one.quarantine.message}")
    if one.relapses:
        yield f"  {count(one.relapses, 'relapse')}: each within a day of a return; the next time out is twice as long"
    if one.quarantine and one.out_until is not None and one.out_until > now:
        until = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.out_until))
        yield f"  does not return by itself before {until}; `nvlaunch nodes readmit {one.node}` returns it now"
    happened = [(event.at, _incident(event)) for event in one.incidents]
    happened += [(past.at, _check(past)) for past in one.checks[-SHOWN:]]
    for at, (first, *more) in sorted(happened, key=lambda each: each[0]):
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
        yield clean(f"  {when}  {first}").replace("\n", " ")
        yield from (clean(f"    | {line}") for line in more)


def _incident(event: Incident) -> list[str]:
    """Return what happened, and its log lines."""
    by = f"{event.run}: " if event.run else ""
    return [f"{event.kind.value:9}  {by}{event.message}", *event.evidence]


def _check(past: PastCheck) -> list[str]:
    number = "" if past.number is None else f" {past.number:.6g}"
    size = f" on {past.size} nodes" if past.size > 1 else ""
    why = f": {past.message}" if past.message else ""
    return [f"{past.name}{size}: {past.verdict.value}{number}{why}"]


def _last(one: NodeRecord, now: float) -> str:
    times = [event.at for event in one.incidents]
    times += [one.drain.at] if one.drain else []
    return f"{age(now - max(times))} ago" if times else ""
