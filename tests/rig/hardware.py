"""The state of a host's stand-in drivers: its tray, and how the tools themselves behave."""

import uuid
from dataclasses import dataclass, field, replace
from typing import Any

FOLDER = "/var/lib/rig"
DRIVER = "580.173.02"


@dataclass(frozen=True)
class Gpu:
    """One GPU, by its place in the tray."""

    index: int
    uuid: str
    bus: str
    recovery_action: str = "None"
    memory_used: int = 0  # MiB
    cluster_uuid: str | None = None  # None: that of the tray
    clique: int | None = None
    uncorrected: int = 0
    row_failure: bool = False
    lost: bool = False  # `nvidia-smi` says so instead of its figures


@dataclass(frozen=True)
class Hardware:
    """The tray as its driver shows it, and how the tools themselves behave."""

    gpus: tuple[Gpu, ...]
    cluster_uuid: str
    clique: int = 32766
    accelerator: str = "GB300"
    tray: int = 0
    chassis: str = "1820000000001"
    fabric_state: str = "Completed"  # Not Supported | Not Started | In Progress
    fabric_status: str = "Success"
    health: str = "Healthy"  # Unhealthy | Limited Capacity | N/A
    bandwidth: str = "Full"  # Degraded
    apps: tuple[tuple[int, str, int], ...] = ()  # pid, name, MiB: on the first GPU
    kernel_log: tuple[tuple[float, str], ...] = ()  # seconds since boot, line
    kernel_log_readable: bool = True
    smi_hang: float = 0  # seconds before `nvidia-smi` answers; -1: never
    smi_error: str = ""  # printed instead of an answer, with exit status 9
    imex_hang: float = 0
    imex_nodes: dict[str, str] = field(default_factory=dict)  # address -> state, where it is not READY
    imex_version: str = DRIVER
    sudo: str = "works"  # asks
    units: dict[str, str] = field(default_factory=lambda: {"nvidia-imex": "inactive", "nvidia-persistenced": "active"})

    def with_gpus(self, **changes: Any) -> "Hardware":
        """Return the tray with every GPU changed in the same way."""
        return replace(self, gpus=tuple(replace(gpu, **changes) for gpu in self.gpus))

    def with_gpu(self, index: int, **changes: Any) -> "Hardware":
        """Return the tray with one GPU changed."""
        return replace(self, gpus=tuple(replace(gpu, **changes) if gpu.index == index else gpu for gpu in self.gpus))

    def with_xid(self, number: int, said: str, at: float = 100.0, gpu: int = 0) -> "Hardware":
        """Return the tray with one more Xid in its kernel log; the driver writes `NVRM: Xid (PCI:...): 79, ...`."""
        bus = self.gpus[gpu].bus.rpartition(".")[0][4:]
        return replace(self, kernel_log=(*self.kernel_log, (at, f"NVRM: Xid (PCI:{bus}): {number}, {said}")))


def hardware(name: str, rack: str, tray: int, gpus: int = 4, accelerator: str = "GB300") -> Hardware:
    """Return a healthy tray whose identity follows from its name: the same name, the same GPUs."""
    buses = ("00000008:06:00.0", "00000009:06:00.0", "00000018:06:00.0", "00000019:06:00.0")
    made = tuple(
        Gpu(
            at,
            f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, f'{name}/{at}')}",
            buses[at] if at < 4 else f"000000{at + 32:02X}:06:00.0",
        )
        for at in range(gpus)
    )
    chassis = str(1820000000000 + int(rack[1:] or 0) if rack else 1820000000000)
    cluster = str(uuid.uuid5(uuid.NAMESPACE_OID, f"rack/{rack}"))
    return Hardware(made, cluster, accelerator=accelerator, tray=tray, chassis=chassis)
