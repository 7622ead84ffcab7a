"""Which machines of an imaginary fleet reach each other, as times (s).

Also when an agent stops itself because of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from launcher.core.control.timing import POPULATION_S, SELF_STOP_S
from launcher.core.model.nodeset import NodeName
from launcher.core.model.simulation import Fault, FaultKind
from launcher.sim import faults
from launcher.sim.world import NEVER, SimHost, Watch

Stretch = tuple[float, float]

_OFF = (FaultKind.POWER_CUT, FaultKind.LINK_DOWN)
POWERED_OFF_S = 60.0
"""How long a host that was powered off by order stays so (s); then it boots, as empty as after a power cut."""


def merged(stretches: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """Return the union of stretches, in order; those that touch become one."""
    found: list[Stretch] = []
    for begins, ends in sorted(stretches):
        if found and begins <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], ends))
        elif begins < ends:
            found.append((begins, ends))
    return tuple(found)


def within(stretches: Iterable[Stretch], at: float) -> Stretch | None:
    """Return the stretch that a moment is in."""
    return next((one for one in stretches if one[0] <= at < one[1]), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The silences of each node of a run.

    When its machine is cut off from all others, when from the head's, when its agent stops. `lost` says when the head's
    machine receives too few heartbeats, and its agent stops the head and all that ask it.
    """

    cut: Mapping[NodeName, tuple[Stretch, ...]]
    severed: Mapping[NodeName, tuple[Stretch, ...]]
    stops: Mapping[NodeName, tuple[float, ...]]
    lost: tuple[float, ...] = ()


def reach(happen: Iterable[Fault], hosts: Mapping[NodeName, SimHost], watches: tuple[Watch, ...], run: str) -> Reach:
    """Return which machines reach each other.

    By the faults on the clock, the rows, and where the head was when.
    """
    own: dict[NodeName, list[Fault]] = {}
    for fault in happen:
        own.setdefault(fault.node, []).append(fault)
    cut = {node: merged((*faults.silences(own.get(node, ()), *_OFF), *_off(host))) for node, host in hosts.items()}
    troubled = any(cut.values())
    if not troubled or not watches:
        return Reach(cut=cut, severed={}, stops={})
    severed = {node: merged(_from_head(node, cut, watches)) for node in hosts}
    lost = _lost(hosts, severed, watches, run)
    stops = {
        node: tuple(sorted((*lost, *(begins + SELF_STOP_S for begins, ends in mine if ends - begins >= SELF_STOP_S))))
        for node, mine in severed.items()
    }
    return Reach(cut=cut, severed=severed, stops=stops, lost=lost)


def _off(host: SimHost) -> tuple[Stretch, ...]:
    return () if host.off_at is None else ((host.off_at, host.off_at + POWERED_OFF_S),)


def _from_head(
    node: NodeName, cut: Mapping[NodeName, tuple[Stretch, ...]], watches: tuple[Watch, ...]
) -> Iterable[Stretch]:
    """Return when a node and the head of the time do not reach each other.

    The head's own node always does.
    """
    for at, watch in enumerate(watches):
        until = watches[at + 1].since if at + 1 < len(watches) else NEVER
        there = cut.get(NodeName(watch.node), ()) if watch.node else ()
        if watch.node != node:
            for begins, ends in (*cut[node], *there):
                yield max(begins, watch.since), min(ends, until)


def _lost(
    hosts: Mapping[NodeName, SimHost],
    severed: Mapping[NodeName, tuple[Stretch, ...]],
    watches: tuple[Watch, ...],
    run: str,
) -> tuple[float, ...]:
    """Return when the head received too few heartbeats for long enough.

    Fewer than half of the nodes of the last minute sent one.
    """
    agents = {node: host.agent_at for node, host in hosts.items() if host.run == run and host.agent_at is not None}
    moments = {at for node in agents for stretch in severed[node] for at in (*stretch, stretch[0] + POPULATION_S)}
    moments |= {watch.since for watch in watches} | set(agents.values())
    found: list[float] = []
    since: float | None = None
    ordered = sorted(at for at in moments if at < NEVER)
    for at, then in zip(ordered, (*ordered[1:], NEVER), strict=True):
        if not _too_few(at, agents, severed):
            since = None
            continue
        since = at if since is None or at in {watch.since for watch in watches} else since
        if since + SELF_STOP_S < then and since + SELF_STOP_S >= at:
            found.append(since + SELF_STOP_S)
    return tuple(found)


def _too_few(at: float, agents: Mapping[NodeName, float], severed: Mapping[NodeName, tuple[Stretch, ...]]) -> bool:
    heard = known = 0
    for node, agent_at in agents.items():
        if agent_at > at:
            continue
        stretch = within(severed[node], at)
        heard += stretch is None
        known += stretch is None or (agent_at < stretch[0] and at - stretch[0] < POPULATION_S)
    return heard * 2 < known
