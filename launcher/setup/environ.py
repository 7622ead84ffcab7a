"""The variables that a rank sees, ours and SkyPilot's."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from launcher.core.model.inventory import Node
from launcher.core.model.placement import Slice
from launcher.core.model.run import Member, MemberName, Run, Slot
from launcher.core.model.task import Group, Task
from launcher.core.placement import colocation
from launcher.setup import ray


def task_id(run: Run) -> str:
    """Return the id of the run for checkpoint folders: the same over all restarts, and after it was preempted."""
    return f"nvlaunch-{run.first or run.id}"


def setup(run: Run, node: Node, member: Member) -> dict[str, str]:
    """Return the variables of `setup:` on a node; its rank may change before `run:`, as with SkyPilot."""
    count = run.group(member.group).topology.nodes
    addresses = "\n".join(_address(run, name) for name in _first_holders(run, member.group))
    return {
        **node.env,
        **run.group(member.group).envs,
        "NVLAUNCH_RUN": run.name,
        "NVLAUNCH_TASK_ID": task_id(run),
        "NVLAUNCH_GROUP": member.group,
        "NVLAUNCH_RACK": node.rack,
        "NVLAUNCH_DOMAIN": node.domain or "",
        "SKYPILOT_TASK_ID": task_id(run),
        "SKYPILOT_SETUP_NODE_RANK": str(member.rank),
        "SKYPILOT_SETUP_NODE_IPS": addresses,
        "SKYPILOT_NUM_NODES": str(count),
        "SKYPILOT_SETUP_NUM_GPUS_PER_NODE": str(run.group(member.group).gpus),
    }


def _first_holders(run: Run, group: str) -> list[str]:
    return [name for part in run.placement.slices if part.group == group for name in part.nodes]


def _address(run: Run, name: str) -> str:
    return next(node.access.address for node in run.fleet.nodes if node.name == name)


def given(run: Run, node: Node, member: Member) -> dict[str, str]:
    """Return what the inventory and the task give a rank; its own variables go before these."""
    return {**node.env, **run.group(member.group).envs}


def rank(
    run: Run, member: Member, slots: Sequence[Slot], *, attempt: int, restarts: int, master_port: int
) -> dict[str, str]:
    """Return a rank's own variables. `slots` are the holders of every slot of the run."""
    holders = {slot.member: slot.node for slot in slots}
    node, group, part = run.node(holders[member.name]), run.group(member.group), run.slice_of(member)
    addresses = _addresses(run, holders)
    own = addresses[member.group]
    ips = "\n".join(own)
    slices = sum(1 for other in run.placement.slices if other.group == member.group)
    variables = {
        "NVLAUNCH_RUN": run.name,
        "NVLAUNCH_TASK_ID": task_id(run),
        "NVLAUNCH_NODE_RANK": str(member.rank),
        "NVLAUNCH_NUM_NODES": str(len(own)),
        "NVLAUNCH_NODE_IPS": ips,
        "NVLAUNCH_NUM_GPUS_PER_NODE": str(group.gpus),
        "NVLAUNCH_GROUP": member.group,
        "NVLAUNCH_SLICE": str(part.index),
        "NVLAUNCH_NUM_SLICES": str(slices),
        "NVLAUNCH_SLICE_RANK": str(member.slice_rank),
        "NVLAUNCH_RACK": node.rack,
        "NVLAUNCH_DOMAIN": node.domain or "",
        "NVLAUNCH_RESTARTS": str(restarts),
        "NVLAUNCH_ATTEMPT": str(attempt),
        "NODE_RANK": str(member.rank),
        "NNODES": str(len(own)),
        "MASTER_ADDR": own[0],
        "MASTER_PORT": str(master_port),
        "SKYPILOT_TASK_ID": task_id(run),
        "SKYPILOT_NODE_RANK": str(member.rank),
        "SKYPILOT_NUM_NODES": str(len(own)),
        "SKYPILOT_NODE_IPS": ips,
        "SKYPILOT_NUM_GPUS_PER_NODE": str(group.gpus),
    }
    others = {_group_variable(name): "\n".join(ips) for name, ips in addresses.items() if name != member.group}
    return {**variables, **others, **_devices(run.task, group, node)}


def slices(run: Run, slots: Sequence[Slot]) -> str:
    """Return the slices of a run as JSON, each node with its rank and its Ray labels: for a driver to build on.

    `placement_group` is the name of the group that is reserved for a slice (in the namespace `nvlaunch`), or null.
    """
    members = {member.name: member for member in run.members()}
    return json.dumps([_slice(run, part, slots, members) for part in run.placement.slices])


def _slice(run: Run, part: Slice, slots: Sequence[Slot], members: Mapping[MemberName, Member]) -> dict[str, Any]:
    own = [slot for slot in slots if members[slot.member].slice_key == part.key]
    nodes = [_node(run, slot, members[slot.member]) for slot in sorted(own, key=lambda one: members[one.member].rank)]
    group, labels = run.group(part.group), [node["labels"] for node in nodes]
    return {
        "group": part.group,
        "slice": part.index,
        "rack": nodes[0]["rack"],
        "domain": nodes[0]["domain"],
        "labels": {key: value for key, value in labels[0].items() if all(other.get(key) == value for other in labels)},
        "placement_group": part.key if group.driver is None or group.reserve else None,
        "nodes": nodes,
    }


def _node(run: Run, slot: Slot, member: Member) -> dict[str, Any]:
    node = run.node(slot.node)
    return {
        "name": node.name,
        "rank": member.rank,
        "address": node.access.address,
        "rack": node.rack,
        "domain": node.domain,
        "gpus": run.group(member.group).gpus,
        "labels": ray.labels(run, slot, member),
    }


def _addresses(run: Run, holders: Mapping[MemberName, str]) -> dict[str, list[str]]:
    """Return the addresses of each group's members in rank order."""
    found: dict[str, list[str]] = {}
    for member in sorted(run.members(), key=lambda one: (one.group, one.rank)):
        found.setdefault(member.group, []).append(_address(run, holders[member.name]))
    return found


def _group_variable(group: str) -> str:
    return f"NVLAUNCH_GROUP_{''.join(c if c.isalnum() else '_' for c in group).upper()}_IPS"


def _devices(task: Task, group: Group, node: Node) -> dict[str, str]:
    """Only a part of a node's GPUs has to be named; a whole node is all that the program sees anyway. Beside others no
    GPU is a part too: theirs are not to be touched."""
    beside = colocation.position_on_node(task, group)[1] > 1
    if not (0 < group.gpus < node.gpus or (beside and group.gpus == 0)):
        return {}
    first = colocation.first_gpu(task, group)
    return {"CUDA_VISIBLE_DEVICES": ",".join(str(at) for at in range(first, first + group.gpus))}
