"""Checks of GPUs, driver and NVLink fabric: one function for each fact."""

from collections import Counter
from collections.abc import Sequence

from launcher.core.model.inventory import Node
from launcher.core.model.text import count
from launcher.probe.check_in_use import live
from launcher.probe.findings import Fact, Finding, bad, cannot_tell, good, not_applicable
from launcher.probe.node_facts import Facts
from launcher.probe.nvidia import xid, xid_table
from launcher.probe.nvidia.fabric import FabricState
from launcher.probe.nvidia.nvidia_smi import Driver, Gpu, MemoryRemedy, Recovery
from launcher.probe.nvidia.xid import Xid
from launcher.probe.nvidia.xid_table import XidAction
from launcher.probe.results import Unknown

MAX_MEMORY = 1024
"""MiB of a GPU that may be in use before a start: the driver itself uses less."""

FABRIC_SETTLES = 300.0
"""Seconds after boot in which a GPU may still be joining its fabric."""

_HINT_LOG = "add the user to group `systemd-journal`, or allow `sudo -n dmesg`"


def driver(facts: Facts, _node: Node) -> Finding:
    """Check that the driver responds."""
    found = facts.driver
    if isinstance(found, Unknown):
        hint = "; for nodes without GPUs set `gpu_driver: none` in the inventory" if found.missing else ""
        return cannot_tell(Fact.DRIVER, found.why + hint, stops=True)
    if found.fault:
        return bad(Fact.DRIVER, found.fault)
    return good(Fact.DRIVER, found.version or "unknown version")


def _unseen(fact: Fact, unknown: Unknown) -> Finding:
    """Return the finding about unknown GPUs, which prevents a start."""
    return cannot_tell(fact, unknown.why, stops=True)


def _name(gpu: Gpu) -> str:
    return f"GPU {gpu.bus or gpu.uuid or '?'}"


def gpus(facts: Facts, node: Node) -> Finding:
    """Check that all GPUs of the inventory are found."""
    found = facts.driver
    if isinstance(found, Unknown):
        return _unseen(Fact.GPUS, found)
    lost = [f"{_name(gpu)}: {gpu.lost}" for gpu in found.gpus if gpu.lost]
    present = len(found.gpus) - len(lost)
    if present < node.gpus:
        evidence = tuple(lost) or ((found.fault,) if found.fault else ())
        return bad(Fact.GPUS, f"{present} of {node.gpus} found{': ' + evidence[0] if evidence else ''}", *evidence)
    if lost:
        return bad(Fact.GPUS, lost[0], *lost)
    names = sorted({gpu.name for gpu in found.gpus if gpu.name})
    if node.accelerator and names and not _is(node.accelerator, names[0]):
        message = f"the inventory has `{node.accelerator}`, but the driver reports `{names[0]}`"
        return bad(Fact.GPUS, message, stops=False)
    return good(Fact.GPUS, f"{present} x {', '.join(names) or 'GPU'}")


def _is(accelerator: str, product: str) -> bool:
    """Whether `NVIDIA A100-SXM4-80GB` has all parts of `A100-80GB`."""
    wanted = accelerator.casefold().replace("_", "-").replace(" ", "-").split("-")
    return all(word in product.casefold() for word in wanted)


def gpu_memory(facts: Facts, _node: Node) -> Finding:
    """Check that no process uses memory of the GPUs."""
    if isinstance(facts.driver, Unknown):
        return _unseen(Fact.GPU_MEMORY, facts.driver)
    known = [gpu for gpu in facts.driver.gpus if gpu.used is not None]
    if not known:
        return cannot_tell(Fact.GPU_MEMORY, "the driver does not report it")
    held = [gpu for gpu in known if (gpu.used or 0) > MAX_MEMORY]
    if not held:
        return good(Fact.GPU_MEMORY, "free")
    runs = () if isinstance(facts.processes, Unknown) else live(facts.processes)
    if runs:
        return good(Fact.GPU_MEMORY, f"in use by {', '.join(runs)}")
    return bad(Fact.GPU_MEMORY, f"in use on {count(len(held), 'GPU')}: {_held(held[0])}", *map(_held, held))


def _held(gpu: Gpu) -> str:
    who = ", ".join(f"pid {process.pid} {process.name}" for process in gpu.processes[:5])
    return f"{_name(gpu)} {(gpu.used or 0) / 1024:.1f} GiB ({who or 'by an unknown process'})"


def memory_errors(facts: Facts, _node: Node) -> Finding:
    """Check that the memory of no GPU is worn out, or waits for a reset to be repaired."""
    if isinstance(facts.driver, Unknown):
        return _unseen(Fact.MEMORY_ERRORS, facts.driver)
    found = [
        (fault.remedy is MemoryRemedy.REPLACE, f"{_name(gpu)}: `{fault.field}: {fault.value}`: {fault.remedy.value}")
        for gpu in facts.driver.gpus
        for fault in gpu.memory_faults or ()
    ]
    if found:
        messages = [message for _, message in sorted(found, key=lambda one: not one[0])]
        return bad(Fact.MEMORY_ERRORS, messages[0], *messages, stops=any(stops for stops, _ in found))
    if all(gpu.memory_faults is None for gpu in facts.driver.gpus):
        return cannot_tell(Fact.MEMORY_ERRORS, "the driver does not report it")
    return good(Fact.MEMORY_ERRORS, "none that needs a reset or a replacement")


def recovery(facts: Facts, _node: Node) -> Finding:
    """Check that the driver requests no recovery action for a GPU."""
    if isinstance(facts.driver, Unknown):
        return _unseen(Fact.RECOVERY, facts.driver)
    due = [f"{_name(gpu)}: {gpu.action}" for gpu in facts.driver.gpus if gpu.recovery is Recovery.DUE]
    if due:
        return bad(Fact.RECOVERY, f"requested by the driver: {due[0]}", *due)
    if any(gpu.recovery is Recovery.NONE for gpu in facts.driver.gpus):
        return good(Fact.RECOVERY, "none requested")
    return cannot_tell(Fact.RECOVERY, "the driver does not report it")


def fabric(facts: Facts, _node: Node) -> Finding:
    """Check the NVLink fabric of each GPU."""
    if isinstance(facts.driver, Unknown):
        return _unseen(Fact.FABRIC, facts.driver)
    found = [(gpu, gpu.fabric) for gpu in _present(facts.driver)]
    if not found:
        return cannot_tell(Fact.FABRIC, facts.driver.fault or "no GPUs found", stops=True)
    troubles = [f"{_name(gpu)}: {message}" for gpu, part in found for message in part.troubles]
    if troubles:
        return bad(Fact.FABRIC, troubles[0], *troubles)
    states = {part.state for _, part in found}
    if states & {FabricState.NOT_STARTED, FabricState.IN_PROGRESS}:
        return _pending(facts, facts.driver)
    if FabricState.OTHER in states:
        said = next(part.said for _, part in found if part.state is FabricState.OTHER)
        return cannot_tell(Fact.FABRIC, f"unknown state `{said}`", stops=True)
    if FabricState.NONE not in states:
        return good(Fact.FABRIC, "completed and healthy on all GPUs")
    if FabricState.COMPLETED in states:
        return bad(Fact.FABRIC, "only some GPUs of the tray are in a fabric", *_states(facts.driver))
    return not_applicable(Fact.FABRIC, "these GPUs have no NVLink fabric")


def _present(found: Driver) -> tuple[Gpu, ...]:
    """Return the GPUs that are not lost. The fabric of a lost GPU has no meaning."""
    return tuple(gpu for gpu in found.gpus if not gpu.lost)


def _states(found: Driver) -> tuple[str, ...]:
    return tuple(f"{_name(gpu)}: {gpu.fabric.said or 'N/A'}" for gpu in _present(found))


def _pending(facts: Facts, found: Driver) -> Finding:
    present = _present(found)
    late = [gpu for gpu in present if gpu.fabric.state is not FabricState.COMPLETED]
    message = f"{late[0].fabric.said} on {len(late)} of {len(present)} GPUs"
    if not isinstance(facts.host, Unknown) and facts.host.uptime < FABRIC_SETTLES:
        message = f"{message}, {facts.host.uptime:.0f} s after boot; check again later"
        return cannot_tell(Fact.FABRIC, message, stops=True)
    return bad(Fact.FABRIC, message, *_states(found))


def domain_of(facts: Facts) -> str | None:
    """Return the NVLink domain of all GPUs of a node.

    None if there is none, or if they differ.
    """
    if isinstance(facts.driver, Unknown):
        return None
    found = {gpu.fabric.domain for gpu in _present(facts.driver)}
    return next(iter(found)) if len(found) == 1 else None


def domain(facts: Facts, node: Node) -> Finding:
    """Check that the GPUs report one NVLink domain, the same as the inventory has."""
    if isinstance(facts.driver, Unknown):
        return _unseen(Fact.DOMAIN, facts.driver)
    present = _present(facts.driver)
    if not present:
        return cannot_tell(Fact.DOMAIN, facts.driver.fault or "no GPUs found", stops=True)
    if len({gpu.fabric.domain for gpu in present}) > 1:
        shown = tuple(f"{_name(gpu)}: {gpu.fabric.domain or 'none'}" for gpu in present)
        return bad(Fact.DOMAIN, "the GPUs of this tray report different domains", *shown)
    found = domain_of(facts)
    if found is None:
        return _no_domain(present, node)
    if node.domain is not None and node.domain.casefold() != found.casefold():
        message = (
            f"the inventory has `{node.domain}`, the drivers report `{found}`: correct the inventory or the cabling"
        )
        return bad(Fact.DOMAIN, message, f"inventory: {node.domain}", f"drivers: {found}")
    return good(Fact.DOMAIN, found)


def _no_domain(found: Sequence[Gpu], node: Node) -> Finding:
    # An old driver has no such key, and a GPU that is joining has no value yet; zeroes mean that there is no domain.
    if any(gpu.fabric.tray_only for gpu in found):
        if node.domain is None:
            return cannot_tell(Fact.DOMAIN, "the drivers report none: rack-local slices cannot use this node")
        message = (
            f"the inventory has `{node.domain}`, the drivers report no domain beyond the tray (ClusterUUID of zeroes)"
        )
        return bad(Fact.DOMAIN, message, f"inventory: {node.domain}", "drivers: none")
    if node.domain:
        return cannot_tell(Fact.DOMAIN, f"the drivers report none; `{node.domain}` of the inventory is not verified")
    return cannot_tell(Fact.DOMAIN, "the drivers report none: rack-local slices cannot use this node")


def xids(facts: Facts, _node: Node) -> Finding:
    """Check the GPU errors since boot.

    Those of a GPU that needs no recovery by its driver do not prevent a start.
    """
    if isinstance(facts.xids, Unknown):
        return cannot_tell(Fact.XIDS, f"{facts.xids.why}; {_HINT_LOG}")
    if not facts.xids:
        return good(Fact.XIDS, "none since boot")
    standing = xid.standing(facts.xids)
    if not standing:
        return good(Fact.XIDS, f"no node fault since boot, but {_summary(facts.xids)}")
    cured = set()
    if not isinstance(facts.driver, Unknown):
        cured = {gpu.bus for gpu in facts.driver.gpus if gpu.recovery is Recovery.NONE and gpu.bus}
    stops = any(one.action is XidAction.REPLACE and one.bus not in cured for one in standing)
    first = standing[0]
    message = f"GPU {first.bus or '?'}: {xid_table.title(first.code)}{_ago(first, facts)}: {first.action.value}"
    after = "" if stops or first.action is not XidAction.REPLACE else "; the driver requests no recovery now"
    return bad(Fact.XIDS, message + after, *(f"Xid {one.code}: {one.text}" for one in standing[:10]), stops=stops)


def _summary(found: Sequence[Xid]) -> str:
    counted = Counter(one.code for one in found).most_common(5)
    return ", ".join(f"{times} x {xid_table.title(code)}" for code, times in counted)


def _ago(found: Xid, facts: Facts) -> str:
    if found.at is None or isinstance(facts.host, Unknown) or facts.host.uptime < found.at:
        return ""
    return f", {(facts.host.uptime - found.at) / 60:.0f} min ago"
