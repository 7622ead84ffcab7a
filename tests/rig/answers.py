"""The state of stand-in drivers to the files that the stand-ins read, in the shapes of driver 580 on GB300 trays."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from tests.rig.hardware import DRIVER, FOLDER, Gpu, Hardware

_LOST = "GPU is lost"  # in place of what the driver would have to ask the GPU for; what it knows already stays
_KEPT_OF_LOST = ("index", "name", "gpu_name", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "driver_version", "count")
_ASKED = ("fb_memory_usage", "ecc_errors", "fabric")
_HEALTH_KEYS = (
    "summary",
    "bandwidth",
    "route_recovery_in_progress",
    "route_unhealthy",
    "access_timeout_recovery",
    "incorrect_configuration",
)


def render(state: Hardware) -> list[tuple[str, str]]:
    """Return the files of the state folder, by path."""
    files = {
        "state.json": json.dumps(asdict(state), indent=1) + "\n",
        "smi/hang": _hang(state.smi_hang),
        "smi/error": state.smi_error,
        "smi/list": "".join(_listed(state)),
        "smi/q": _text(state),
        "smi/q.xml": _xml(state),
        "smi/fields": "".join("\t".join(row) + "\n" for row in _fields(state)),
        "smi/apps": "".join("\t".join(row) + "\n" for row in _apps(state)),
        "kernel/log": "".join(f"{at:.6f} {line}\n" for at, line in state.kernel_log),
        "kernel/readable": "yes" if state.kernel_log_readable else "",
        "imex/hang": _hang(state.imex_hang),
        "imex/nodes": "".join(f"{address} {said}\n" for address, said in state.imex_nodes.items()),
        "imex/version": state.imex_version + "\n",
        "sudo": state.sudo + "\n",
        **{f"units/{name}/state": f"{said}\n" for name, said in state.units.items()},
    }
    return [(f"{FOLDER}/{path}", text) for path, text in files.items()]


def _product(state: Hardware) -> str:
    return f"NVIDIA {state.accelerator}"


def _hang(seconds: float) -> str:
    return "" if seconds == 0 else "infinity\n" if seconds < 0 else f"{seconds}\n"


def _listed(state: Hardware) -> Iterable[str]:
    for gpu in state.gpus:
        if gpu.lost:
            unable = f"Unable to determine the device handle for GPU{gpu.index}: {gpu.bus}"
            yield f"{unable}: GPU is lost.  Reboot the system to recover this GPU\n"
        else:
            yield f"GPU {gpu.index}: {_product(state)} (UUID: {gpu.uuid})\n"


def _identity(state: Hardware, gpu: Gpu) -> tuple[str, str]:
    if state.fabric_state != "Completed":
        return "N/A", "N/A"
    clique = state.clique if gpu.clique is None else gpu.clique
    return (state.cluster_uuid if gpu.cluster_uuid is None else gpu.cluster_uuid), str(clique)


def _fields(state: Hardware) -> Iterable[tuple[str, ...]]:
    """Return the table of `--query-gpu`: the names of the fields, then each GPU."""
    for number, gpu in enumerate(state.gpus):
        cluster, clique = _identity(state, gpu)
        row = {
            "index": str(gpu.index), "name": _product(state), "uuid": gpu.uuid,
            "gpu_uuid": gpu.uuid, "gpu_name": _product(state), "pci.bus_id": gpu.bus,
            "gpu_bus_id": gpu.bus, "driver_version": DRIVER, "count": str(len(state.gpus)),
            "serial": f"165{gpu.index:010}",
            "gpu_serial": f"165{gpu.index:010}", "gpu_recovery_action": gpu.recovery_action, "compute_mode": "Default",
            "ecc.errors.uncorrected.volatile.total": str(gpu.uncorrected), "persistence_mode": "Enabled",
            "ecc.errors.uncorrected.aggregate.total": str(gpu.uncorrected), "remapped_rows.pending": "No",
            "remapped_rows.failure": "No", "clocks_event_reasons.active": "0x0000000000000001",
            "clocks_event_reasons.hw_slowdown": "Not Active", "clocks_event_reasons.hw_thermal_slowdown": "Not Active",
            "temperature.gpu": "38", "power.draw": "182.40 W", "utilization.gpu": "0 %", "memory.total": "284208 MiB",
            "memory.used": f"{gpu.memory_used} MiB", "memory.free": f"{283261 - gpu.memory_used} MiB",
            "fabric.state": state.fabric_state, "fabric.status": _status(state), "fabric.cliqueId": clique,
            "fabric.clusterUuid": cluster, "fabric.health.summary": state.health, "mig.mode.current": "Disabled",
            "fabric.health.bandwidth": state.bandwidth, "pstate": "P0",
            "platform.chassis_serial_number": state.chassis, "platform.slot_number": str(state.tray + 10),
            "platform.tray_index": str(state.tray), "platform.host_id": "1", "platform.module_id": str(gpu.index + 1),
        }  # fmt: skip
        if number == 0:
            yield tuple(row)
        yield tuple(f"[{_LOST}]" if gpu.lost and key not in _KEPT_OF_LOST else value for key, value in row.items())


def _status(state: Hardware) -> str:
    return state.fabric_status if state.fabric_state == "Completed" else "N/A"


def _apps(state: Hardware) -> Iterable[tuple[str, ...]]:
    yield "pid", "process_name", "used_memory", "used_gpu_memory", "gpu_uuid", "gpu_bus_id", "name"
    for pid, name, used in state.apps:
        first = state.gpus[0]
        yield str(pid), name, f"{used} MiB", f"{used} MiB", first.uuid, first.bus, name


def _text(state: Hardware) -> str:
    """Return `nvidia-smi -q`, its keys padded as driver 580 does."""
    lines = ["", "==============NVSMI LOG==============", ""]
    lines += [
        _row(0, "Driver Version", DRIVER),
        _row(0, "CUDA Version", "13.0"),
        "",
        _row(0, "Attached GPUs", str(len(state.gpus))),
    ]
    for gpu in state.gpus:
        lines.append(f"GPU {gpu.bus}")
        section = ""
        for depth, key, value in _facts(state, gpu):
            section = key if depth == 1 else section
            said = _LOST if gpu.lost and section in ("FB Memory Usage", "ECC Errors", "Fabric") else value
            lines.append(_row(depth, key, said or "") if value is not None else f"{'    ' * depth}{key}")
    return "\n".join(lines) + "\n"


def _row(depth: int, key: str, value: str) -> str:
    return f"{'    ' * depth}{key:<{50 - 4 * depth}} : {value}" if depth else f"{key:<50} : {value}"


def _facts(state: Hardware, gpu: Gpu) -> Iterable[tuple[int, str, str | None]]:
    cluster, clique = _identity(state, gpu)
    ready = state.fabric_state == "Completed"
    yield 1, "Product Name", _product(state)
    yield 1, "Product Architecture", "Blackwell"
    yield 1, "Persistence Mode", "Enabled"
    yield 1, "Serial Number", f"165{gpu.index:010}"
    yield 1, "GPU UUID", gpu.uuid
    yield 1, "Platform Info", None
    yield 2, "Chassis Serial Number", state.chassis
    yield 2, "Slot Number", str(state.tray + 10)
    yield 2, "Tray Index", str(state.tray)
    yield 2, "Host ID", "1"
    yield 2, "Peer Type", "Switch Connected"
    yield 2, "Module Id", str(gpu.index + 1)
    yield 1, "GPU Recovery Action", "N/A" if gpu.lost else gpu.recovery_action
    yield 1, "FB Memory Usage", None
    yield 2, "Total", "284208 MiB"
    yield 2, "Reserved", "947 MiB"
    yield 2, "Used", f"{gpu.memory_used} MiB"
    yield 2, "Free", f"{283261 - gpu.memory_used} MiB"
    yield 1, "ECC Errors", None
    yield 2, "Volatile", None
    yield 3, "DRAM Uncorrectable", str(gpu.uncorrected)
    yield 1, "Fabric", None
    yield 2, "State", state.fabric_state
    yield 2, "Status", _status(state)
    yield 2, "CliqueId", clique
    yield 2, "ClusterUUID", cluster
    yield 2, "Health", None
    for key, value in _health(state) if ready else [(key, "N/A") for key, _ in _health(state)]:
        yield 3, key, value
    if not state.apps or gpu.index:
        yield 1, "Processes", "None"
        return
    yield 1, "Processes", None
    for pid, name, used in state.apps:
        yield 2, "Process ID", str(pid)
        yield 3, "Type", "C"
        yield 3, "Name", name
        yield 3, "Used GPU Memory", f"{used} MiB"


def _health(state: Hardware) -> list[tuple[str, str]]:
    return [
        ("Summary", state.health),
        ("Bandwidth", state.bandwidth),
        ("Route Recovery in progress", "False"),
        ("Route Unhealthy", "False"),
        ("Access Timeout Recovery", "False"),
        ("Incorrect Configuration", "None"),
    ]


def _xml(state: Hardware) -> str:
    """Return `nvidia-smi -q -x`: the elements that anybody reads, in the driver's order."""
    head = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n<nvidia_smi_log>\n'
    about = f"\t<driver_version>{DRIVER}</driver_version>\n\t<cuda_version>13.0</cuda_version>\n"
    about += f"\t<attached_gpus>{len(state.gpus)}</attached_gpus>\n"
    return head + about + "".join(_gpu_xml(state, gpu) for gpu in state.gpus) + "</nvidia_smi_log>\n"


def _gpu_xml(state: Hardware, gpu: Gpu) -> str:
    cluster, clique = _identity(state, gpu)
    ready = state.fabric_state == "Completed"
    health = {key: said if ready else "N/A" for key, (_, said) in zip(_HEALTH_KEYS, _health(state), strict=True)}
    apps = [
        {"process_info": {"pid": p, "type": "C", "process_name": n, "used_memory": f"{m} MiB"}}
        for p, n, m in state.apps
    ]
    tree: dict[str, Any] = {
        "product_name": _product(state),
        "product_architecture": "Blackwell",
        "persistence_mode": "Enabled",
        "serial": f"165{gpu.index:010}",
        "uuid": gpu.uuid,
        "minor_number": gpu.index,
        "platformInfo": {
            "chassis_serial_number": state.chassis,
            "slot_number": state.tray + 10,
            "tray_index": state.tray,
            "host_id": 1,
            "peer_type": "Switch Connected",
            "module_id": gpu.index + 1,
        },
        "gpu_recovery_action": "N/A" if gpu.lost else gpu.recovery_action,
        "pci": {"pci_bus_id": gpu.bus},
        "fb_memory_usage": {
            "total": "284208 MiB",
            "reserved": "947 MiB",
            "used": f"{gpu.memory_used} MiB",
            "free": f"{283261 - gpu.memory_used} MiB",
        },
        "ecc_errors": {"volatile": {"sram_correctable": 0, "dram_uncorrectable": gpu.uncorrected}},
        "remapped_rows": {"remapped_row_pending": "No", "remapped_row_failure": "Yes" if gpu.row_failure else "No"},
        "fabric": {
            "state": state.fabric_state,
            "status": _status(state),
            "cliqueId": clique,
            "clusterUuid": cluster,
            "health": health,
        },
        "processes": apps if gpu.index == 0 else [],
    }
    if gpu.lost:
        tree |= {key: _silenced(tree[key]) for key in _ASKED} | {"remapped_rows": _LOST}
    return f'\t<gpu id="{gpu.bus}">\n{_elements(tree, 2)}\t</gpu>\n'


def _silenced(tree: Any) -> Any:
    return {key: _silenced(value) for key, value in tree.items()} if isinstance(tree, dict) else _LOST


def _elements(tree: dict[str, Any], depth: int) -> str:
    pad = "\t" * depth
    out = []
    for key, value in tree.items():
        inner = value if isinstance(value, list) else [value] if isinstance(value, dict) else None
        if inner is None:
            out.append(f"{pad}<{key}>{value}</{key}>\n")
        else:
            out.append(f"{pad}<{key}>\n{''.join(_elements(one, depth + 1) for one in inner)}{pad}</{key}>\n")
    return "".join(out)
