"""The faults of an imaginary fleet, as times at which things end or are silent.

| fault | effect |
|---|---|
| raylet_killed | the raylet of the node is killed, and its ranks with it |
| rank_fails, rank_killed | ranks on the node exit with the fault's code / vanish without an exit status |
| agent_killed | the agent is killed; what it had started goes on without it |
| head_killed | the Ray head of the run is killed on its machine; the node named is the head's, where it is a node |
| setup_fails | a setup begun meanwhile fails with the fault's code |
| power_cut | the machine is off: it cannot be reached, and all that ran on it is gone when it comes back |
| link_down | the machine is cut off from all others; what runs there goes on until the agent's self-stop |
| ssh_down | the launcher cannot reach the machine, all others can; nothing there notices |
| bastion_down | the launcher can reach no machine; nothing there notices, and the node named means nothing |
| raylet_stopped | the raylet is stopped by SIGSTOP; Ray counts it as dead when that lasts too long |
| rank_hangs | ranks on the node run and write nothing more |
| rank_slow | ranks on the node work half as long again on a step; all ranks of the run say how long |
| gpu_lost, memory_error, disk_full | the node shows a GPU less, a memory error, a full disk, while it lasts |
| xid_fatal, xid_sympathetic | the node's kernel log has a dead NVLink, or an error that a peer's dead one causes |
| probe_hangs | a question about the node's health has no answer in its time |
| slow_start | setup and raylets begun meanwhile take ten times as long |
| lease_held | another run has the node's lease |
| check_fails | a check on the node fails |
| slow_node, slow_link | a check with the node, or with both nodes, is slower by the fault's factor |
| gpu_taken | a process of no run computes on a GPU of the node, where it has a driver |

A kill strikes what was begun before it; one with a duration strikes all that is begun meanwhile too, a second later.
"""

from collections.abc import Iterable

from launcher.core.model.observation import Health, Sign, Symptom
from launcher.core.model.simulation import Fault, FaultKind
from launcher.sim.world import NEVER

STRIKE_S = 1.0
SLOWNESS = 10.0

_ONCE = frozenset(
    (
        FaultKind.RAYLET_KILLED,
        FaultKind.RANK_FAILS,
        FaultKind.RANK_KILLED,
        FaultKind.AGENT_KILLED,
        FaultKind.HEAD_KILLED,
        FaultKind.RANK_HANGS,
    )
)

_SIGNS = {
    FaultKind.GPU_LOST: Sign(symptom=Symptom.GPU_LOST, message="3 of 4 GPUs"),
    FaultKind.XID_FATAL: Sign(symptom=Symptom.FATAL_LINK, message="Xid 149: NETIR_LINK_DOWN Fatal"),
    FaultKind.MEMORY_ERROR: Sign(symptom=Symptom.MEMORY, message="Xid 95: uncontained memory error"),
    FaultKind.DISK_FULL: Sign(symptom=Symptom.NODE, message="`/` is full"),
    FaultKind.XID_SYMPATHETIC: Sign(symptom=Symptom.SYMPATHETIC, message="Xid 145: RLW_RXPIPE Nonfatal"),
}


def window(fault: Fault) -> tuple[float, float]:
    """Return when a fault begins and ends, in the seconds of its `at`."""
    lasts = fault.duration if fault.duration is not None else 0.0 if fault.fault in _ONCE else NEVER
    return fault.at, fault.at + lasts


def during(faults: Iterable[Fault], kind: FaultKind, at: float) -> Fault | None:
    """Return the fault of a kind that holds at a time."""
    for fault in faults:
        begins, ends = window(fault)
        if fault.fault is kind and begins <= at < ends:
            return fault
    return None


def strike(faults: Iterable[Fault], kind: FaultKind, begun: float) -> tuple[float, Fault | None]:
    """Return when something begun at a time first dies of a kind of fault.

    And of which fault; NEVER and None for none.
    """
    first: tuple[float, Fault | None] = (NEVER, None)
    for fault in faults:
        begins, ends = window(fault)
        if fault.fault is not kind or begun >= ends:
            continue
        at = begins if begun < begins else begun + STRIKE_S
        first = min(first, (at, fault), key=lambda found: found[0])
    return first


def silences(faults: Iterable[Fault], *kinds: FaultKind) -> tuple[tuple[float, float], ...]:
    """Return the times in which a machine does not answer for kinds of fault."""
    return tuple(window(fault) for fault in faults if fault.fault in kinds)


def health(faults: Iterable[Fault], now: float) -> Health:
    """Return the health that a node reports at a time, by its faults."""
    holding = [fault.fault for fault in faults if window(fault)[0] <= now < window(fault)[1]]
    signs = tuple(_SIGNS[kind] for kind in sorted(set(holding) & _SIGNS.keys(), key=lambda kind: kind.value))
    return Health(at=0.0, signs=signs, hung=("nvidia-smi",) if FaultKind.PROBE_HANGS in holding else ())
