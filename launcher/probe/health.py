"""The health of a node during a run: signs of faults, each with a symptom.

The symptom ranks how surely the node is at fault. The ranking follows failures of real racks: one failed link makes 63
other GPUs log errors within seconds. A recovery action that the driver reports takes precedence over the table of Xids.
"""

from collections.abc import Iterator, Sequence

from launcher.core.model.inventory import GpuDriver, Node
from launcher.core.model.observation import Health, Sign, Symptom
from launcher.probe import node_facts, resources
from launcher.probe.check_gpu import FABRIC_SETTLES
from launcher.probe.node_facts import Call, Facts
from launcher.probe.nvidia import xid, xid_table
from launcher.probe.nvidia.fabric import FabricState
from launcher.probe.nvidia.nvidia_smi import Driver, Gpu, MemoryRemedy, Recovery
from launcher.probe.nvidia.xid import Xid
from launcher.probe.nvidia.xid_table import XidAction
from launcher.probe.resources import Memory, Space
from launcher.probe.results import ProbeResults, Unknown, read_results

_PROBES = ("host", "nvidia_smi", "journal", "dmesg")

FULL = 64 * 1024**2
"""Bytes; a disk with less free space is full. A running program can continue with less space than a start needs."""

NO_INODES = 100
LEAST_MEMORY = 0.01
"""The share of available memory below which the kernel is about to kill programs."""

MOST_PRESSURE = 50.0
"""The limit for the share of the last minute in which all programs waited for memory (%)."""

MOST = 40
"""The most signs of one node."""

_GPU_LOST = frozenset({79})
_MEMORY = frozenset({48, 64, 95, 140, 168, 171, 172})
_LINK = frozenset({xid_table.NVLINK4, 136, 155, *xid_table.NVLINK5})
_DRIVER_ITSELF = ("version mismatch", "couldn't communicate", "Failed to initialize NVML")
_OF_A_PEER = ("route recovery in progress", "access timeout recovery")


def call(script: bytes, node: Node, began: str) -> Call:
    """Return the call that checks the health of a node.

    `began` is the file with the start time of the agent.
    """
    known = node_facts.probes(node)
    wanted = {name: probe for name, probe in known.items() if name in _PROBES or name.startswith("space ")}
    own = {"memory": node_facts.builtin("memory"), "began": node_facts.builtin("content", began)}
    return node_facts.ask(script, node, {**wanted, **own})


def read(output: bytes, node: Node) -> Health | Unknown:
    """Return the health in the output of a node.

    Its `at` is 0, since the node does not know the clock of the loop.
    """
    results = read_results(output)
    return results if isinstance(results, Unknown) else assess(results, node)


def assess(results: ProbeResults, node: Node) -> Health:
    """Return the signs of faults of a node, of a peer, or of the program.

    Unknown facts give no signs.
    """
    facts = node_facts.parse_facts(results, node, now=0.0)
    boot_id = None if isinstance(facts.host, Unknown) else facts.host.boot_id
    began = resources.read_began(results.get("began"), boot_id)
    gpus = () if node.gpu_driver is GpuDriver.NONE else (*_of_driver(facts, node), *_of_xids(facts, began))
    memory = _of_memory(facts.shared_memory, resources.read_memory(results.get("memory")))
    return Health(at=0.0, signs=(*gpus, *_of_disks(facts), *memory)[:MOST], hung=_hung(facts))


def _hung(facts: Facts) -> tuple[str, ...]:
    """Return the probes that timed out."""
    spaces = ((f"`{path}`", space) for path, space in zip(node_facts.PATHS, facts.spaces, strict=True))
    named = (("nvidia-smi", facts.driver), ("kernel log", facts.xids), *spaces)
    return tuple(name for name, found in named if isinstance(found, Unknown) and found.hung)


def _of_driver(facts: Facts, node: Node) -> Iterator[Sign]:
    found = facts.driver
    if isinstance(found, Unknown):
        return
    for gpu in found.gpus:
        if gpu.recovery is Recovery.DUE:
            message = f"GPU {_name(gpu)}: the driver requests `{gpu.action}`"
            yield Sign(symptom=_behind(gpu, facts), message=message)
        for fault in gpu.memory_faults or ():
            if fault.remedy is MemoryRemedy.REPLACE:
                message = f"GPU {_name(gpu)}: `{fault.field}: {fault.value}`: {fault.remedy.value}"
                yield Sign(symptom=Symptom.MEMORY, message=message)
        if gpu.lost:
            yield Sign(symptom=Symptom.GPU_LOST, message=f"GPU {_name(gpu)}: {gpu.lost}")
    if found.fault:
        itself = any(message in found.fault for message in _DRIVER_ITSELF)
        yield Sign(symptom=Symptom.NODE if itself else Symptom.GPU_LOST, message=found.fault)
    elif len(found.gpus) < node.gpus:
        yield Sign(symptom=Symptom.GPU_LOST, message=f"{len(found.gpus)} of {node.gpus} GPUs found")
    yield from _of_fabric(found, facts)


def _behind(gpu: Gpu, facts: Facts) -> Symptom:
    """Return the symptom behind a recovery action.

    It is that of the worst error of the GPU, else the one that the action implies.
    """
    seen = () if isinstance(facts.xids, Unknown) else facts.xids
    errors = [_symptom(one.code) for one in seen if one.bus == gpu.bus and one.action is XidAction.REPLACE]
    if errors:
        return min(errors)
    action = (gpu.action or "").casefold()
    if "imex" in action:  # the domain needs the recovery then, not the node
        return Symptom.SYMPATHETIC
    return Symptom.FATAL_LINK if "p2p" in action else Symptom.FIRMWARE


def _name(gpu: Gpu) -> str:
    return gpu.bus or gpu.uuid or "?"


def _of_fabric(found: Driver, facts: Facts) -> Iterator[Sign]:
    present = [gpu for gpu in found.gpus if not gpu.lost]
    states = {gpu.fabric.state for gpu in present}
    for gpu in present:
        if gpu.fabric.troubles:
            said = ", ".join(gpu.fabric.troubles)
            yield Sign(symptom=_of_link(gpu.fabric.troubles), message=f"GPU {_name(gpu)}: NVLink fabric: {said}")
    settling = isinstance(facts.host, Unknown) or facts.host.uptime < FABRIC_SETTLES
    if FabricState.COMPLETED in states and len(states) > 1 and not settling:
        left = [gpu for gpu in present if gpu.fabric.state is not FabricState.COMPLETED]
        message = f"NVLink fabric: state `{left[0].fabric.said or 'N/A'}` on {len(left)} of {len(present)} GPUs"
        yield Sign(symptom=Symptom.FATAL_LINK, message=message)


def _of_link(troubles: Sequence[str]) -> Symptom:
    """Return the symptom of health keys.

    A route recovery or a timeout means that a peer has failed.
    """
    precise = [message.casefold() for message in troubles if not message.casefold().startswith(("summary", "status"))]
    of_a_peer = precise and all(message.startswith(_OF_A_PEER) for message in precise)
    return Symptom.SYMPATHETIC if of_a_peer else Symptom.FATAL_LINK


def _of_xids(facts: Facts, began: float | Unknown | None) -> Iterator[Sign]:
    """Yield signs for errors since the run began on the node.

    Without an agent on the node, all errors count, except for GPUs that need no recovery according to the driver.
    """
    if isinstance(facts.xids, Unknown):
        return
    if began is None or isinstance(began, Unknown):
        cured = set() if isinstance(facts.driver, Unknown) else {_cured(gpu) for gpu in facts.driver.gpus}
        yield from _folded([one for one in _severe(facts.xids) if one.bus not in cured], None)
        return
    recent = [one for one in facts.xids if one.at is None or one.at >= began]
    severe = _severe(recent)
    yield from _folded(severe, None)
    yield from _folded([one for one in recent if one not in severe and _sympathetic(one)], Symptom.SYMPATHETIC)
    program = [one for one in recent if one.action is XidAction.RESTART_APP]
    yield from _folded(program, Symptom.APPLICATION)


def _cured(gpu: Gpu) -> str | None:
    return gpu.bus if gpu.recovery is Recovery.NONE else ""


def _severe(xids: Sequence[Xid]) -> list[Xid]:
    """Return the errors that require a replacement.

    Xid 63 does not, since the memory is usable until a reset.
    """
    return [one for one in xid.standing(xids) if one.action is XidAction.REPLACE]


def _sympathetic(one: Xid) -> bool:
    return one.action is XidAction.SYMPATHETIC or (one.code in xid_table.NVLINK5 and " Nonfatal " in one.text)


def _symptom(code: int) -> Symptom:
    for codes, symptom in (
        (_GPU_LOST, Symptom.GPU_LOST),
        (_LINK, Symptom.FATAL_LINK),
        (_MEMORY, Symptom.MEMORY),
    ):
        if code in codes:
            return symptom
    return Symptom.FIRMWARE


def _folded(xids: Sequence[Xid], symptom: Symptom | None) -> Iterator[Sign]:
    """Yield one sign for each code and GPU, with its first line."""
    lines: dict[tuple[int, str | None], list[Xid]] = {}
    for one in xids:
        lines.setdefault((one.code, one.bus), []).append(one)
    for (code, bus), same in lines.items():
        times = f" ({len(same)} times)" if len(same) > 1 else ""
        message = f"GPU {bus or '?'}: {xid_table.title(code)}{times}: {same[0].text[:200]}"
        yield Sign(symptom=_symptom(code) if symptom is None else symptom, message=message)


def _of_disks(facts: Facts) -> Iterator[Sign]:
    seen: set[tuple[int, ...]] = set()
    for space in facts.spaces:
        if isinstance(space, Unknown):
            continue
        disk = (space.bytes, space.free, space.inodes, space.free_inodes)
        if disk in seen:  # several paths on one disk are reported once
            continue
        seen.add(disk)
        if space.read_only and space.path != "/":
            yield Sign(symptom=Symptom.NODE, message=f"`{space.path}` is read-only")
        elif space.bytes > 0 and space.free < FULL:
            yield Sign(symptom=Symptom.NODE, message=f"`{space.path}` is full: {space.free / 1e6:.0f} MB free")
        elif space.inodes > 0 and space.free_inodes < NO_INODES:
            yield Sign(symptom=Symptom.NODE, message=f"`{space.path}` has {space.free_inodes} free inodes")


def _of_memory(shared: Space | Unknown, memory: Memory | Unknown) -> Iterator[Sign]:
    """Yield signs of full memory.

    The program is blamed, since it would fill the memory of another node too.
    """
    if isinstance(shared, Space) and shared.bytes > 0 and shared.free < FULL:
        yield Sign(symptom=Symptom.APPLICATION, message=f"`{shared.path}` is full: {shared.free / 1e6:.0f} MB free")
    if isinstance(memory, Memory) and memory.total > 0:
        left = memory.available / memory.total
        if left < LEAST_MEMORY or memory.stalled > MOST_PRESSURE:
            message = (
                f"{left:.0%} of memory available; programs waited for memory {memory.stalled:.0f}% of the last minute"
            )
            yield Sign(symptom=Symptom.APPLICATION, message=message)
