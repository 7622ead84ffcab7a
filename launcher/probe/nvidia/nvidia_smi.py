"""The driver and the GPUs of a node as `nvidia-smi` prints them.

Known are drivers 535 to 580, and later ones with the same keys. One `-q -x` prints everything. `--query-gpu` fails as a
whole if an older driver lacks one field.
"""

import re
from dataclasses import dataclass, field
from enum import Enum, unique

from launcher.probe.nvidia import pci
from launcher.probe.nvidia.fabric import Fabric, read_fabric
from launcher.probe.nvidia.smi_tree import SmiTree, from_text, from_xml
from launcher.probe.results import ProbeResult, Unknown, failure_of, first_words

_END = "</nvidia_smi_log>"

COMMAND = (
    "sh",
    "-c",
    f'found=$(nvidia-smi -q -x); case $found in *"{_END}"*) printf "%s\\n" "$found";; *) exec nvidia-smi -q;; esac',
)

TIMEOUT = 20.0
"""Seconds; without persistence mode each call loads the driver, which takes ten seconds or more."""

LIMIT = 4 * 1024 * 1024
"""Bytes; the output for four GB300 has 118 KB."""

MAX_GPUS = 64

_FAULTS = (
    "Unable to determine the device handle",
    "GPU is lost",
    "GPU requires reset",
    "fallen off the bus",
    "Driver/library version mismatch",
    "couldn't communicate with the NVIDIA driver",
    "No devices were found",
    "Failed to initialize NVML",
)


@unique
class Recovery(Enum):
    """Whether the driver requests a recovery action for a GPU.

    UNKNOWN: it is too old to report it.
    """

    UNKNOWN = "unknown"
    NONE = "none"
    DUE = "due"


@unique
class MemoryRemedy(Enum):
    """What a field about the memory of a GPU asks for.

    NVIDIA returns GPUs with REPLACE; with RESET the GPU works, and its next reset repairs it:
    https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html
    """

    REPLACE = "the GPU must be replaced"
    RESET = "the GPU needs a reset"


_MEMORY_FIELDS = (
    (("remappedrows", "remappedrowfailure"), MemoryRemedy.REPLACE),
    (("remappedrows", "remappingfailureoccurred"), MemoryRemedy.REPLACE),
    (("eccerrors", "aggregate", "sramthresholdexceeded"), MemoryRemedy.REPLACE),
    (("eccerrors", "unrepairablememory"), MemoryRemedy.REPLACE),
    (("remappedrows", "remappedrowpending"), MemoryRemedy.RESET),
    (("remappedrows", "pending"), MemoryRemedy.RESET),
    (("eccerrors", "channelrepairpending"), MemoryRemedy.RESET),
    (("eccerrors", "tpcrepairpending"), MemoryRemedy.RESET),
    (("retiredpages", "pendingretirement"), MemoryRemedy.RESET),
    (("retiredpages", "pendingpageblacklist"), MemoryRemedy.RESET),
    # Errors since the driver was loaded; those of its whole life (`aggregate`) may be repaired.
    (("eccerrors", "volatile", "dramuncorrectable"), MemoryRemedy.RESET),
    (("eccerrors", "volatile", "sramuncorrectable"), MemoryRemedy.RESET),
    (("eccerrors", "volatile", "sramuncorrectableparity"), MemoryRemedy.RESET),
    (("eccerrors", "volatile", "sramuncorrectablesecded"), MemoryRemedy.RESET),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFault:
    """A field about the memory of a GPU with a bad value, as the tool prints both, and what it asks for."""

    field: str
    value: str
    remedy: MemoryRemedy


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that holds memory of a GPU (MiB)."""

    pid: int
    name: str
    used: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU. `bus` as in `0018:01:00`; memory in MiB.

    `action` is the recovery action that the driver requests, `lost` its message about a lost GPU. `memory_faults` is
    None if the driver reports nothing about errors of the memory.
    """

    bus: str | None = None
    uuid: str | None = None
    name: str | None = None
    memory: int | None = None
    used: int | None = None
    recovery: Recovery = Recovery.UNKNOWN
    action: str | None = None
    lost: str | None = None
    chassis: str | None = None
    tray: int | None = None
    fabric: Fabric = field(default_factory=Fabric)
    processes: tuple[GpuProcess, ...] = ()
    memory_faults: tuple[MemoryFault, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The driver and its GPUs; `fault` is its own message if it shows none."""

    version: str | None = None
    gpus: tuple[Gpu, ...] = ()
    fault: str | None = None


def read_driver(result: ProbeResult | None) -> Driver | Unknown:
    """Return the driver and the GPUs that `nvidia-smi` printed."""
    why = failure_of(result, "`nvidia-smi`")
    if result is None or (why and why.hung):
        return why or Unknown(why="no result of `nvidia-smi`")
    # The exit status does not matter: a warning about the InfoROM of one GPU makes it 14.
    found = None if result.dropped else _driver(result.out)
    if found and (found.gpus or found.version):
        return found
    printed = (result.out + "\n" + result.err)[:65536]
    fault = next((line for line in printed.splitlines() if any(message in line for message in _FAULTS)), None)
    if fault:
        return Driver(fault=first_words(fault))
    return why or Unknown(why=f"the output of `nvidia-smi` cannot be parsed: {first_words(result.out)}")


def _driver(text: str) -> Driver:
    before, start, rest = text.partition("<?xml")
    # There may be warnings before and after the document.
    root = from_xml(start + rest.partition(_END)[0] + _END) if start else from_text(before)
    top = (root.at("nvidiasmilog") or root) if root else SmiTree()
    gpus = [child for child in top.below if child.key == "gpu"][:MAX_GPUS]
    return Driver(version=top.text("driverversion"), gpus=tuple(map(_gpu, gpus)))


def _gpu(tree: SmiTree) -> Gpu:
    lost = next((found.value for found in tree.walk() if "GPU is lost" in found.value), None)
    action = tree.text("gpurecoveryaction")
    return Gpu(
        bus=pci.canonical(tree.value),
        uuid=tree.text("uuid") or tree.text("gpuuuid"),
        name=tree.text("productname"),
        memory=_mib(tree.text("fbmemoryusage", "total")),
        used=_mib(tree.text("fbmemoryusage", "used")),
        recovery=_recovery(action),
        action=action[:120] if action and _recovery(action) is Recovery.DUE else None,
        lost=lost[:120] if lost else None,
        chassis=tree.text("platforminfo", "chassisserialnumber"),
        tray=_whole(tree.text("platforminfo", "trayindex")),
        fabric=read_fabric(tree),
        processes=_processes(tree),
        memory_faults=_memory_faults(tree),
    )


def _memory_faults(tree: SmiTree) -> tuple[MemoryFault, ...] | None:
    """Return the fields with a bad value: `Yes`, or a number of errors; None if the GPU has none of the fields."""
    found = [(tree.at(*path), remedy) for path, remedy in _MEMORY_FIELDS]
    told = [(one, remedy) for one, remedy in found if one and re.fullmatch(r"Yes|No|[0-9]{1,18}", one.value)]
    if not told:
        return None
    return tuple(
        MemoryFault(field=one.name, value=one.value, remedy=remedy)
        for one, remedy in told
        if one.value != "No" and one.value.strip("0")
    )


def _recovery(action: str | None) -> Recovery:
    if action is None or "GPU is lost" in action:
        return Recovery.UNKNOWN
    return Recovery.NONE if action == "None" else Recovery.DUE


def _processes(tree: SmiTree) -> tuple[GpuProcess, ...]:
    listed = tree.at("processes")
    found = [item for item in listed.below if item.key == "processinfo"][:64] if listed else []
    return tuple(
        GpuProcess(
            pid=_whole(item.text("pid")) or 0,
            name=first_words(item.text("processname") or "?"),
            used=_mib(item.text("usedmemory")),
        )
        for item in found
    )


def _mib(text: str | None) -> int | None:
    found = re.fullmatch(r"([0-9]{1,12}) MiB", text or "")
    return int(found[1]) if found else None


def _whole(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"[0-9]{1,9}", text) else None
