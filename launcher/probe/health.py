"""What a node shows of its own health while a run is on it: signs of faults, each with how surely it is the node's own.

The ranking is of failures seen on racks: a link that dies makes 63 other GPUs print errors within seconds. The
driver's own recovery action comes first: it beats every table of Xids.
"""

from collections.abc import Iterator, Sequence

from launcher.core.model.inventory import GpuDriver, Node
from launcher.core.model.observation import Health, Sign, Symptom
from launcher.probe import collect, resources, xid, xid_table
from launcher.probe.answer import Answers, Unknown, read_answers
from launcher.probe.collect import Call, Facts
from launcher.probe.fabric import FabricState
from launcher.probe.judge_gpu import FABRIC_SETTLES
from launcher.probe.nvidia_smi import Driver, Gpu, Recovery
from launcher.probe.resources import Memory, Space
from launcher.probe.xid import Xid
from launcher.probe.xid_table import XidAction

_PROBES = ("host", "nvidia_smi", "journal", "dmesg")

FULL = 64 * 1024**2
"""Bytes: a disk with less is full. Above that a run goes on, whatever else would rather not start there."""

NO_INODES = 100
LEAST_MEMORY = 0.01
"""Share of the memory that is still to be had; below it the kernel is about to kill programs."""

MOST_PRESSURE = 50.0
"""Per cent of the last minute in which every program waited for memory."""

MOST = 40
"""Signs of one node; errors by the thousand say no more than these."""

_GPU_LOST = frozenset({79})
_MEMORY = frozenset({48, 64, 95, 140, 168, 171, 172})
_LINK = frozenset({xid_table.NVLINK4, 136, 155, *xid_table.NVLINK5})
_DRIVER_ITSELF = ("version mismatch", "couldn't communicate", "Failed to initialize NVML")
_OF_A_PEER = ("route recovery in progress", "access timeout recovery")


def call(script: bytes, node: Node, began: str) -> Call:
    """Return how to ask a node of its health; `began` is the file where the agent of the run says when it began."""
    known = collect.probes(node)
    wanted = {name: probe for name, probe in known.items() if name in _PROBES or name.startswith("space ")}
    own = {"memory": collect.builtin("memory"), "began": collect.builtin("content", began)}
    return collect.ask(script, node, {**wanted, **own})


def read(output: bytes, node: Node) -> Health | Unknown:
    """Return the health in what a node printed; its `at` is 0, for the node knows nothing of the loop's clock."""
    answers = read_answers(output)
    return answers if isinstance(answers, Unknown) else judge(answers, node)


def judge(answers: Answers, node: Node) -> Health:
    """Return what speaks against a node, a peer of it or the program; nothing where it could not be seen."""
    facts = collect.facts(answers, node, now=0.0)
    boot_id = None if isinstance(facts.host, Unknown) else facts.host.boot_id
    began = resources.read_began(answers.get("began"), boot_id)
    gpus = () if node.gpu_driver is GpuDriver.NONE else (*_of_driver(facts, node), *_of_xids(facts, began))
    memory = _of_memory(facts.shared_memory, resources.read_memory(answers.get("memory")))
    return Health(at=0.0, signs=(*gpus, *_of_disks(facts), *memory)[:MOST], hung=_hung(facts))


def _hung(facts: Facts) -> tuple[str, ...]:
    """Return which probes did not end in their time."""
    named = (("nvidia-smi", facts.driver), ("kernel log", facts.xids), *((_path(s), s) for s in facts.spaces))
    return tuple(name for name, found in named if isinstance(found, Unknown) and found.hung)


def _path(found: Space | Unknown) -> str:
    return found.why.partition(" gave ")[0].partition(" hangs ")[0] if isinstance(found, Unknown) else found.path


def _of_driver(facts: Facts, node: Node) -> Iterator[Sign]:
    found = facts.driver
    if isinstance(found, Unknown):
        return
    for gpu in found.gpus:
        if gpu.recovery is Recovery.DUE:
            message = f"the driver asks for `{gpu.action}` on GPU {_name(gpu)}"
            yield Sign(symptom=_behind(gpu, facts), message=message)
        if gpu.lost:
            yield Sign(symptom=Symptom.GPU_LOST, message=f"GPU {_name(gpu)}: {gpu.lost}")
    if found.fault:
        itself = any(message in found.fault for message in _DRIVER_ITSELF)
        yield Sign(symptom=Symptom.NODE if itself else Symptom.GPU_LOST, message=found.fault)
    elif len(found.gpus) < node.gpus:
        yield Sign(symptom=Symptom.GPU_LOST, message=f"{len(found.gpus)} of {node.gpus} GPUs are there")
    yield from _of_fabric(found, facts)


def _behind(gpu: Gpu, facts: Facts) -> Symptom:
    """Return what a recovery action is for: the worst error of its GPU, else what the action itself is about."""
    seen = () if isinstance(facts.xids, Unknown) else facts.xids
    errors = [_symptom(one.code) for one in seen if one.bus == gpu.bus and one.action is XidAction.REPLACE]
    if errors:
        return min(errors)
    action = (gpu.action or "").casefold()
    if "imex" in action:  # it is a domain that has to be mended then, not a node
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
            yield Sign(symptom=_of_link(gpu.fabric.troubles), message=f"NVLink fabric of GPU {_name(gpu)}: {said}")
    settling = isinstance(facts.host, Unknown) or facts.host.uptime < FABRIC_SETTLES
    if FabricState.COMPLETED in states and len(states) > 1 and not settling:
        left = [gpu for gpu in present if gpu.fabric.state is not FabricState.COMPLETED]
        message = f"NVLink fabric: {left[0].fabric.said or 'none'} on {len(left)} of {len(present)} GPUs"
        yield Sign(symptom=Symptom.FATAL_LINK, message=message)


def _of_link(troubles: Sequence[str]) -> Symptom:
    """Return whose trouble it is: a route that is being mended, or a timeout, says that a peer has gone."""
    precise = [message.casefold() for message in troubles if not message.casefold().startswith(("summary", "status"))]
    of_a_peer = precise and all(message.startswith(_OF_A_PEER) for message in precise)
    return Symptom.SYMPATHETIC if of_a_peer else Symptom.FATAL_LINK


def _of_xids(facts: Facts, began: float | Unknown | None) -> Iterator[Sign]:
    """Errors count since the run began here. Where nothing of it is here, the driver's word on a GPU cures its past."""
    if isinstance(facts.xids, Unknown):
        return
    if began is None or isinstance(began, Unknown):
        cured = set() if isinstance(facts.driver, Unknown) else {_cured(gpu) for gpu in facts.driver.gpus}
        yield from _folded([one for one in _grave(facts.xids) if one.bus not in cured], None)
        return
    recent = [one for one in facts.xids if one.at is None or one.at >= began]
    grave = _grave(recent)
    yield from _folded(grave, None)
    yield from _folded([one for one in recent if one not in grave and _sympathetic(one)], Symptom.SYMPATHETIC)
    program = [one for one in recent if one.action is XidAction.RESTART_APP]
    yield from _folded(program, Symptom.APPLICATION)


def _cured(gpu: Gpu) -> str | None:
    return gpu.bus if gpu.recovery is Recovery.NONE else ""


def _grave(xids: Sequence[Xid]) -> list[Xid]:
    """What waits for a reset (Xid 63) does not count: the memory is good until then."""
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
    """Return one sign for each code and GPU, with the first line of it."""
    lines: dict[tuple[int, str | None], list[Xid]] = {}
    for one in xids:
        lines.setdefault((one.code, one.bus), []).append(one)
    for (code, bus), same in lines.items():
        times = f" ({len(same)} times)" if len(same) > 1 else ""
        message = f"{xid_table.words(code)}, on GPU {bus or '?'}{times}: {same[0].text[:200]}"
        yield Sign(symptom=_symptom(code) if symptom is None else symptom, message=message)


def _of_disks(facts: Facts) -> Iterator[Sign]:
    seen: set[tuple[int, ...]] = set()
    for space in facts.spaces:
        if isinstance(space, Unknown):
            continue
        disk = (space.bytes, space.free, space.inodes, space.free_inodes)
        if disk in seen:  # one disk at several paths is full once
            continue
        seen.add(disk)
        if space.read_only and space.path != "/":
            yield Sign(symptom=Symptom.NODE, message=f"`{space.path}` is read-only")
        elif space.bytes > 0 and space.free < FULL:
            yield Sign(symptom=Symptom.NODE, message=f"`{space.path}` is full: {space.free / 1e6:.0f} MB are free")
        elif space.inodes > 0 and space.free_inodes < NO_INODES:
            yield Sign(symptom=Symptom.NODE, message=f"`{space.path}` has {space.free_inodes} inodes left")


def _of_memory(shared: Space | Unknown, memory: Memory | Unknown) -> Iterator[Sign]:
    """Memory is used up by the program as a rule, and the next node would fare no better: no node is blamed for it."""
    if isinstance(shared, Space) and shared.bytes > 0 and shared.free < FULL:
        yield Sign(symptom=Symptom.APPLICATION, message=f"`{shared.path}` is full: {shared.free / 1e6:.0f} MB are free")
    if isinstance(memory, Memory) and memory.total > 0:
        left = memory.available / memory.total
        if left < LEAST_MEMORY or memory.stalled > MOST_PRESSURE:
            message = f"{left:.0%} of the memory is left, and programs waited for it {memory.stalled:.0f}% of a minute"
            yield Sign(symptom=Symptom.APPLICATION, message=message)
