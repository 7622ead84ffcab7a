"""How long what was begun on a node lives: every moment at which something changes there, from its row and its faults.

Worked out once for each change of a row; a look then only compares these times with the clock.
"""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from launcher.core.fleet import Fault, FaultKind, NodeName, SimSettings
from launcher.sim import faults as fault_table
from launcher.sim.faults import SLOWNESS, strike
from launcher.sim.world import NEVER, Host, Rank, Raylet

JITTER = 0.2
SETUP_SHARE = 0.3
SIGNAL_S = 1.0
SELF_STOP_S = 15.0
"""A keeper that has heard nothing of the head's host for so long kills its ranks and its Ray (s)."""
NOTICE_KILL_S = 3.0
NOTICE_SILENCE_S = 18.0
"""How long Ray takes to notice a killed raylet and a silent host, measured with our health checks (s)."""
SIGNALLED = 128
"""A shell reports the death by signal n as 128 + n."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What befalls one node during a run: its own faults, by the clock, and when the head's host does not answer it."""

    node: NodeName
    settings: SimSettings
    faults: tuple[Fault, ...] = ()
    severed: tuple[tuple[float, float], ...] = ()

    @property
    def silent(self) -> tuple[tuple[float, float], ...]:
        """Answer when the node does not answer."""
        return fault_table.silences(self.faults, FaultKind.POWER_CUT, FaultKind.LINK_DOWN)

    def start_s(self, begun: float) -> float:
        """Answer how long a raylet begun then takes to be known to Ray (s), by node, and by `slow_start`."""
        spread = zlib.crc32(f"{self.settings.seed}:{self.node}".encode()) / 0xFFFFFFFF
        slow = SLOWNESS if fault_table.during(self.faults, FaultKind.SLOW_START, begun) else 1.0
        return self.settings.start_s * slow * (1 - JITTER + 2 * JITTER * spread)

    def killed(self, begun: float, *kinds: FaultKind) -> float:
        """Answer when something begun then is killed by one of these kinds of fault; NEVER if by none."""
        return min((strike(self.faults, kind, begun)[0] for kind in kinds), default=NEVER)

    def self_stop(self, begun: float) -> float:
        """Answer when the keeper kills what was begun then, because the head's host has been silent for too long."""
        stops = (begins + SELF_STOP_S for begins, ends in self.severed if ends - begins >= SELF_STOP_S)
        return min((at for at in stops if begun < at), default=NEVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupLife:
    """When a setup ends, and with which exit code."""

    ends: float
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RayletLife:
    """When a raylet is known to Ray, when it dies, and when Ray notices that."""

    raylet: Raylet
    ready: float
    dies: float
    noticed: float

    def alive(self, now: float) -> bool:
        """Answer whether its process lives."""
        return self.raylet.begun_at <= now < self.dies

    def known(self, now: float) -> bool:
        """Answer whether Ray has ever seen it."""
        return self.ready <= now and self.ready < self.dies

    def trusted(self, now: float) -> bool:
        """Answer whether Ray holds it for alive."""
        return self.known(now) and now < self.noticed


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLife:
    """When a rank ends; `code` None: without an exit status."""

    rank: Rank
    ends: float
    code: int | None

    def alive(self, now: float) -> bool:
        """Answer whether it runs."""
        return now < self.ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The lives of all that was begun on a node."""

    host: Host
    silent: tuple[tuple[float, float], ...]
    keeper_dies: float
    setup: SetupLife | None
    raylets: tuple[RayletLife, ...]
    ranks: tuple[RankLife, ...]

    def reachable(self, now: float) -> bool:
        """Answer whether the node can be seen."""
        return not any(begins <= now < ends for begins, ends in self.silent)

    def keeper(self, now: float) -> bool:
        """Answer whether a keeper lives there."""
        return self.host.keeper_at is not None and now < self.keeper_dies

    def raylet(self, now: float) -> RayletLife | None:
        """Answer the newest raylet that lives."""
        return next((life for life in reversed(self.raylets) if life.alive(now)), None)

    def after(self, now: float) -> float:
        """Answer the first moment after a time at which something here changes; NEVER if nothing will."""
        moments = [self.keeper_dies, *(at for stretch in self.silent for at in stretch)]
        moments += [self.setup.ends] if self.setup else []
        moments += [at for life in self.raylets for at in (life.ready, life.dies, life.noticed)]
        moments += [life.ends for life in self.ranks]
        return min((at for at in moments if at > now), default=NEVER)


def life(host: Host, around: Circumstances) -> Life:
    """Answer the lives of all that a node's row says was begun there."""
    raylets = tuple(_raylet(raylet, around) for raylet in host.raylets)
    dies = {one.raylet.generation: one.dies for one in raylets}
    keeper_at = NEVER if host.keeper_at is None else host.keeper_at
    return Life(
        host=host,
        silent=around.silent,
        keeper_dies=around.killed(keeper_at, FaultKind.KEEPER_KILLED, FaultKind.POWER_CUT),
        setup=_setup(host, around),
        raylets=raylets,
        ranks=tuple(_rank(rank, dies, around) for rank in host.ranks),
    )


def _setup(host: Host, around: Circumstances) -> SetupLife | None:
    if host.setup is None:
        return None
    begun = host.setup.begun_at
    failing = fault_table.during(around.faults, FaultKind.SETUP_FAILS, begun)
    return SetupLife(ends=begun + SETUP_SHARE * around.start_s(begun), code=failing.code if failing else 0)


def _raylet(raylet: Raylet, around: Circumstances) -> RayletLife:
    begun = raylet.begun_at
    power, stop = around.killed(begun, FaultKind.POWER_CUT), around.self_stop(begun)
    killed = min(around.killed(begun, FaultKind.RAYLET_KILLED), _or_never(raylet.ended_at))
    dies, noticed = min(
        (killed, killed + NOTICE_KILL_S),
        (power, power + NOTICE_SILENCE_S),
        (stop, stop - SELF_STOP_S + NOTICE_SILENCE_S),
    )
    return RayletLife(raylet=raylet, ready=begun + around.start_s(begun), dies=dies, noticed=noticed)


def _rank(rank: Rank, raylets: Mapping[int, float], around: Circumstances) -> RankLife:
    begun = rank.begun_at
    fails, fault = strike(around.faults, FaultKind.RANK_FAILS, begun)
    ends: list[tuple[float, int | None]] = [
        (raylets.get(rank.generation, begun), None),
        (_or_never(rank.ended_at), None),
        (around.killed(begun, FaultKind.RANK_KILLED), None),
        (fails, fault.code if fault else None),
        (begun + around.settings.run_s, 0),
    ]
    if rank.signalled_at is not None and rank.signalled is not None:
        ends.append((rank.signalled_at + SIGNAL_S, SIGNALLED + rank.signalled))
    at, code = min(ends, key=lambda end: end[0])
    return RankLife(rank=rank, ends=at, code=code)


def _or_never(at: float | None) -> float:
    return NEVER if at is None else at


def by_clock(faults: Iterable[Fault], began_at: float) -> tuple[Fault, ...]:
    """Answer faults that are told from a run's first action on, with the times that the clock will show."""
    return tuple(replace(fault, at=fault.at + began_at) for fault in faults)
