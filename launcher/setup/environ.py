"""The variables of setups and ranks, our own and SkyPilot's.

What all ranks of a run have in common is computed once.
"""

import json
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Slice
from launcher.core.model.run import Member, MemberName, Run, Slot
from launcher.core.model.run_index import index_of
from launcher.core.model.task import Group, Task
from launcher.core.placement import colocation
from launcher.runtime.protocol_files import MAX_LIST, SharedDocument, Variables, given, own
from launcher.setup import ray

_LIST = re.compile(r"\b(NVLAUNCH|SKYPILOT)(_SETUP)?_NODE_IPS\b")


def torchrun(gpus: int, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables from which `torchrun` takes options that its command line leaves out.

    It reads `PET_` and an option's name (torch/distributed/argparse_util.py), and so does `accelerate launch`, which
    starts torchrun's agent. A rank without GPUs is one process.
    """
    options = ("NNODES", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
    return {"PET_NPROC_PER_NODE": str(max(1, gpus)), **{f"PET_{name}": variables[name] for name in options}}


def task_id(run: Run) -> str:
    """Return the id of the run for checkpoint folders.

    It stays the same over restarts, and after a preemption.
    """
    return f"nvlaunch-{run.first or run.id}"


class SharedVariables:
    """What all ranks have in common while the slots have the same holders.

    `addresses` are those of each group's members in rank order; `content` is what a node is sent, as a file `name`.
    """

    def __init__(self, envs: Mapping[str, Mapping[str, str]], addresses: Mapping[str, Sequence[str]]) -> None:
        self.addresses = addresses
        self.document: SharedDocument = {
            "envs": {group: dict(env) for group, env in envs.items()},
            "addresses": {group: "\n".join(found) for group, found in addresses.items()},
        }
        plain = json.dumps(self.document, separators=(",", ":")).encode()
        self.name = sha256(plain).hexdigest()[:16]
        self.content = zlib.compress(plain)

    def whole(self, variables: Variables) -> dict[str, str]:
        """Return variables as their program sees them."""
        return {**given(self.document, variables), **own(self.document, variables)}


class RunEnvironment:
    """The variables of a run's programs, computed once for its placement.

    Nothing here is searched for in a list. `of_machine` are the inventory's variables by machine.
    """

    def __init__(self, run: Run) -> None:
        self.index = index_of(run)
        self._run = run
        self._task_id = task_id(run)
        self._groups = {group.name: group for group in run.task.groups}
        self.of_machine = {node.access: dict(node.env) for node in reversed(run.fleet.nodes)}
        self._slices = Counter(part.group for part in run.placement.slices)
        first = {m.name: self.index.slices[m.slice_key].nodes[m.slice_rank] for m in self.index.members}
        self._latest = (first, self._share(first))
        self.at_first = self._latest[1]

    def shared(self, slots: Sequence[Slot]) -> SharedVariables:
        """Return what ranks share while these are the holders of all slots."""
        holders = {slot.member: slot.node for slot in slots}
        known, shared = self._latest
        if known != holders:
            shared = self._share(holders)
            self._latest = (holders, shared)
        return shared

    def _share(self, holders: Mapping[MemberName, NodeName]) -> SharedVariables:
        found: dict[str, list[str]] = {}
        for member in sorted(self.index.members, key=lambda one: (one.group, one.rank)):
            found.setdefault(member.group, []).append(self.index.nodes[holders[member.name]].access.address)
        return SharedVariables({name: group.envs for name, group in self._groups.items()}, found)

    def setup(self, node: Node, member: Member) -> Variables:
        """Return the variables of `setup:` on a node.

        Its rank may change before `run:`, as with SkyPilot.
        """
        group = self._groups[member.group]
        variables = {
            "NVLAUNCH_RUN": self._run.name,
            "NVLAUNCH_TASK_ID": self._task_id,
            "NVLAUNCH_GROUP": member.group,
            "NVLAUNCH_RACK": node.rack,
            "NVLAUNCH_DOMAIN": node.domain or "",
            "SKYPILOT_TASK_ID": self._task_id,
            "SKYPILOT_SETUP_NODE_RANK": str(member.rank),
            "SKYPILOT_NUM_NODES": str(group.topology.nodes),
            "SKYPILOT_SETUP_NUM_GPUS_PER_NODE": str(group.gpus),
        }
        return self._variables(self.at_first, node, member, variables, {"SKYPILOT_SETUP_NODE_IPS": member.group})

    def rank(
        self, shared: SharedVariables, node: Node, member: Member, *, attempt: int, restarts: int, master_port: int
    ) -> Variables:
        """Return the variables of a rank on a node."""
        group, addresses = self._groups[member.group], shared.addresses[member.group]
        count = str(len(addresses))
        variables = {
            "NVLAUNCH_RUN": self._run.name,
            "NVLAUNCH_TASK_ID": self._task_id,
            "NVLAUNCH_NODE_RANK": str(member.rank),
            "NVLAUNCH_NUM_NODES": count,
            "NVLAUNCH_NUM_GPUS_PER_NODE": str(group.gpus),
            "NVLAUNCH_GROUP": member.group,
            "NVLAUNCH_SLICE": str(member.slice),
            "NVLAUNCH_NUM_SLICES": str(self._slices[member.group]),
            "NVLAUNCH_SLICE_RANK": str(member.slice_rank),
            "NVLAUNCH_RACK": node.rack,
            "NVLAUNCH_DOMAIN": node.domain or "",
            "NVLAUNCH_RESTARTS": str(restarts),
            "NVLAUNCH_ATTEMPT": str(attempt),
            "NODE_RANK": str(member.rank),
            "NNODES": count,
            "MASTER_ADDR": addresses[0],
            "MASTER_PORT": str(master_port),
            "SKYPILOT_TASK_ID": self._task_id,
            "SKYPILOT_NODE_RANK": str(member.rank),
            "SKYPILOT_NUM_NODES": count,
            "SKYPILOT_NUM_GPUS_PER_NODE": str(group.gpus),
            **self._devices(group, node),
        }
        theirs = torchrun(group.gpus, variables)
        variables |= {name: value for name, value in theirs.items() if name not in group.envs and name not in node.env}
        by_group = {_group_variable(name): name for name in shared.addresses if name != member.group}
        by_group |= dict.fromkeys(("NVLAUNCH_NODE_IPS", "SKYPILOT_NODE_IPS"), member.group)
        return self._variables(shared, node, member, variables, by_group)

    @staticmethod
    def _variables(
        shared: SharedVariables, node: Node, member: Member, variables: dict[str, str], addresses: dict[str, str]
    ) -> Variables:
        return {
            "shared": shared.name,
            "group": member.group,
            "node": dict(node.env),
            "own": variables,
            "addresses": addresses,
        }

    def _devices(self, group: Group, node: Node) -> dict[str, str]:
        """Return CUDA_VISIBLE_DEVICES for a group that has a part of its node's GPUs.

        A program sees a whole node anyway. Beside other groups, no GPU is a part too: the others' GPUs must not be
        touched.
        """
        beside = colocation.position_on_node(self._run.task, group)[1] > 1
        if not (0 < group.gpus < node.gpus or (beside and group.gpus == 0)):
            return {}
        first = colocation.first_gpu(self._run.task, group)
        return {"CUDA_VISIBLE_DEVICES": ",".join(str(at) for at in range(first, first + group.gpus))}

    def slices(self, slots: Sequence[Slot]) -> str:
        """Return the slices of the run as JSON, for a driver to build on.

        Each node has its rank and its Ray labels. `placement_group` is the name of the group that is reserved for a
        slice (in the namespace `nvlaunch`), or null.
        """
        held = {slot.member: slot for slot in slots}
        return json.dumps([self._slice(part, held) for part in self._run.placement.slices])

    def _slice(self, part: Slice, held: Mapping[MemberName, Slot]) -> dict[str, Any]:
        nodes = [self._node(member, held[member.name]) for member in self.index.by_slice[part.key]]
        group, labels = self._groups[part.group], [node["labels"] for node in nodes]
        common = {key: value for key, value in labels[0].items() if all(one.get(key) == value for one in labels)}
        return {
            "group": part.group,
            "slice": part.index,
            "rack": nodes[0]["rack"],
            "domain": nodes[0]["domain"],
            "labels": common,
            "placement_group": part.key if group.reserved else None,
            "nodes": nodes,
        }

    def _node(self, member: Member, slot: Slot) -> dict[str, Any]:
        node = self.index.nodes[slot.node]
        return {
            "name": node.name,
            "rank": member.rank,
            "address": node.access.address,
            "rack": node.rack,
            "domain": node.domain,
            "gpus": self._groups[member.group].gpus,
            "labels": ray.labels(self._run.fleet.levels, node, slot, member),
        }


def long_lists(task: Task, fleet: Inventory) -> tuple[tuple[str, str], ...]:
    """Return the scripts that read a list of addresses from a variable that will not be there: group and key.

    Which nodes a group gets is not known yet: its list is as long as the longest addresses of the inventory make it.
    """
    longest = sorted((len(node.access.address) + 1 for node in fleet.nodes), reverse=True)
    found = []
    for group in task.groups:
        if sum(longest[: group.topology.nodes]) <= MAX_LIST:
            continue
        scripts = {"run": group.run, "driver": group.driver, "setup": group.setup}
        found += [(group.name, key) for key, text in scripts.items() if text and _LIST.search(text)]
    return tuple(found)


def _group_variable(group: str) -> str:
    return f"NVLAUNCH_GROUP_{''.join(c if c.isalnum() else '_' for c in group).upper()}_IPS"
