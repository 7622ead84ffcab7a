"""Groups whose nodes one program drives, beside rank 0.

Its other slots have a raylet and no rank: they stand as the driver does. Without `reserve:` there is no placement group
for it, and a slice is in place when Ray lists each of its slots.
"""

from collections.abc import Sequence

from launcher.core.model.placement import Slice
from launcher.core.model.run import Member, Run
from launcher.runtime.protocol import BundleStatus, RankStatusRow, RayNodeStatus, StatusReply, TablesReply


def leads(run: Run, member: Member) -> bool:
    """Whether a slot is the one beside which a driver runs."""
    return run.group(member.group).driver is not None and member.rank == 0


def follow(run: Run, told: Sequence[StatusReply]) -> None:
    """Add the status of its driver to the reply of each driven slot.

    They end together.
    """
    for group in run.task.groups:
        leader = f"{group.name}/0"
        found = [row for reply in told for row in reply.get("ranks", ()) if row["member"] == leader]
        if group.driver is None or not found:
            continue
        newest = max(found, key=lambda row: int(row["attempt"]))
        for reply in told:
            member = reply.get("member") or ""
            if member.rpartition("/")[0] == group.name and member != leader:
                forged: RankStatusRow = {**newest, "member": member, "tail": []}
                reply["ranks"] = [*reply["ranks"], forged]


def open_slices(run: Run) -> dict[str, Slice]:
    """Return the slices that nothing is reserved for, by their keys."""
    groups = {group.name for group in run.task.groups if group.driver is not None and not group.reserve}
    return {part.key: part for part in run.placement.slices if part.group in groups}


def add_groups(run: Run, told: TablesReply) -> None:
    """Add a group to Ray's tables for each slice whose slots all are alive.

    Only for slices that nothing is reserved for.
    """
    alive: dict[str, RayNodeStatus] = {}
    for node in told.get("nodes", ()):
        if node["alive"] and node["generation"] >= alive.get(node["slot"], node)["generation"]:
            alive[node["slot"]] = node
    parts = open_slices(run)
    members: dict[str, list[Member]] = {}
    for member in run.members() if parts else ():
        members.setdefault(member.slice_key, []).append(member)
    for key in parts:
        labels = [member.label for member in members[key]]
        if all(label in alive for label in labels):
            bundles = [_bundle(index, alive[label]) for index, label in enumerate(labels)]
            told["groups"] = [*told["groups"], {"slice": key, "state": "CREATED", "hint": "", "bundles": bundles}]


def _bundle(index: int, node: RayNodeStatus) -> BundleStatus:
    return {"index": index, "slot": node["slot"], "domain": node["domain"], "generation": node["generation"]}
