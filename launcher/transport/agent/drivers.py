"""Groups whose nodes one program drives: `driver:` runs beside rank 0, and what it makes of the nodes is its own.

Its other slots have a raylet and no rank: they fare as the driver does. Without `reserve:` we hold no placement group
for it, and a slice is in its place when Ray has each of its slots.
"""

from collections.abc import Sequence

from launcher.core.model.placement import Slice
from launcher.core.model.run import Member, Run
from launcher.transport.agent.client import Json


def leads(run: Run, member: Member) -> bool:
    """Whether a slot is the one beside which a driver runs."""
    return run.group(member.group).driver is not None and member.rank == 0


def follow(run: Run, told: Sequence[Json]) -> None:
    """Give the answer of each agent whose slot is driven the report of its driver: their ends are one."""
    for group in run.task.groups:
        leader = f"{group.name}/0"
        found = [row for answer in told for row in answer.get("ranks", ()) if row["member"] == leader]
        if group.driver is None or not found:
            continue
        newest = {**max(found, key=lambda row: int(row["attempt"])), "tail": []}
        for answer in told:
            member = answer.get("member") or ""
            if member.rpartition("/")[0] == group.name and member != leader:
                answer["ranks"] = [*answer["ranks"], {**newest, "member": member}]


def open_slices(run: Run) -> dict[str, Slice]:
    """Return the slices that nothing is reserved for, by their keys."""
    groups = {group.name for group in run.task.groups if group.driver is not None and not group.reserve}
    return {part.key: part for part in run.placement.slices if part.group in groups}


def add_groups(run: Run, told: Json) -> None:
    """Add to what Ray's head says a group for each slice without one whose slots all have a live node."""
    alive: dict[str, Json] = {}
    for node in told.get("nodes", ()):
        if node["alive"] and node["generation"] >= alive.get(node["slot"], node)["generation"]:
            alive[node["slot"]] = node
    parts = open_slices(run)
    members: dict[str, list[Member]] = {}
    for member in run.members() if parts else ():
        members.setdefault(member.slice_key, []).append(member)
    for key in parts:
        slots = members[key]
        if all(member.label in alive for member in slots):
            nodes = [alive[member.label] for member in slots]
            rows = [{name: node[name] for name in ("slot", "domain", "generation")} for node in nodes]
            bundles = [{"index": index, **row} for index, row in enumerate(rows)]
            told["groups"] = [*told["groups"], {"slice": key, "state": "CREATED", "hint": "", "bundles": bundles}]
