"""Repair of an idle node, as its GPU driver requests.

A reset of GPUs or a reboot.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from launcher.admission.node_checks import Examined, examine
from launcher.core.model.inventory import Inventory, Node
from launcher.errors import ConflictError, RemoteError
from launcher.ports import Listener, Prober, Shell
from launcher.probe.nvidia.nvidia_smi import Gpu, MemoryRemedy, Recovery
from launcher.probe.results import Unknown
from launcher.setup.lease import read_holder

RESET_S = 180.0
"""How long a reset of all GPUs of a node may take (s)."""
REBOOT_S = 30.0


class Cure(Enum):
    """The repairs that can be done remotely."""

    RESET = "reset"
    REBOOT = "reboot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What the driver requests.

    Its message, the repair, None for an unknown one, and the commands to run as root.
    """

    message: str
    cure: Cure | None
    commands: tuple[tuple[str, ...], ...]


def find_remedy(one: Examined) -> Remedy | None:
    """Return what the driver of a node requests; None for nothing.

    The requests are those of `nvidia-smi -q`: Reset, Reboot, Drain P2P, Drain and Reset. An idle node is already
    drained. A reboot has precedence over resets. Memory that a reset would repair needs one too, though the driver goes
    on without.
    """
    if isinstance(one.facts, Unknown) or isinstance(one.facts.driver, Unknown):
        return None
    due = [gpu for gpu in one.facts.driver.gpus if _action(gpu)]
    if not due:
        return None
    message = "; ".join(f"{gpu.bus or 'a GPU'}: {gpu.action or _action(gpu)}" for gpu in due)
    if any("reboot" in _action(gpu) for gpu in due):
        return Remedy(message=message, cure=Cure.REBOOT, commands=(("systemctl", "reboot"),))
    buses = [gpu.bus for gpu in due if "reset" in _action(gpu) and gpu.bus]
    if buses:
        command = ("nvidia-smi", "--gpu-reset", "-i", ",".join(buses))
        return Remedy(message=message, cure=Cure.RESET, commands=(command,))
    return Remedy(message=message, cure=None, commands=())


def inspect_idle(fleet: Inventory, node: Node, prober: Prober, listener: Listener) -> Examined:
    """Return the health of an idle node.

    RemoteError where it is unreachable, ConflictError where it is in use.
    """
    (one,) = examine(fleet, [node], prober, listener)
    if isinstance(one.facts, Unknown):
        raise RemoteError(one.facts.why, node=node.name, stage="probe")
    if isinstance(one.facts.lease, str):
        holder = str(read_holder(one.facts.lease))
        hint = "`nvlaunch drain` moves a run to a spare"
        raise ConflictError(f"`{node.name}` is in use: {holder}", holder=holder, hints=(hint,))
    driver = one.facts.driver
    busy = () if isinstance(driver, Unknown) else _busy(driver.gpus)
    if busy:
        hint = "end them, or wait until they are done: a reset would kill them"
        raise ConflictError(f"processes use GPUs of `{node.name}`: {', '.join(busy)}", holder=busy[0], hints=(hint,))
    return one


def has_sudo(one: Examined) -> bool:
    """Whether `sudo -n` is allowed on the node."""
    return not isinstance(one.facts, Unknown) and one.facts.sudo is True


def apply(shell: Shell, node: Node, found: Remedy) -> None:
    """Run the commands; RemoteError, with the last lines of output, where one fails.

    A lost connection while rebooting is no failure.
    """
    for command in found.commands:
        timeout = REBOOT_S if found.cure is Cure.REBOOT else RESET_S
        try:
            ended = shell.run(node.access, ("sudo", "-n", *command), timeout=timeout)
        except RemoteError:
            if found.cure is Cure.REBOOT:
                return
            raise
        if ended.status:
            tail = tuple((ended.stdout + ended.stderr).decode("utf-8", "replace").splitlines()[-10:])
            message = f"`{' '.join(command)}` exited with {ended.status}"
            raise RemoteError(message, node=node.name, stage="repair", tail=tail)


def _action(gpu: Gpu) -> str:
    """Return what a GPU needs in lower case; an empty string for nothing."""
    if gpu.recovery is Recovery.DUE:
        return (gpu.action or "").casefold()
    waiting = [fault for fault in gpu.memory_faults or () if fault.remedy is MemoryRemedy.RESET]
    return f"reset ({waiting[0].field}: {waiting[0].value})" if waiting else ""


def _busy(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    return tuple(f"{process.name} ({process.pid})" for gpu in gpus for process in gpu.processes)
