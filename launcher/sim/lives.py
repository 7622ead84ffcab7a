"""The lives of what was begun on a node: every time at which it changes.

Worked out from row and faults, once for each change of a row; a look then only compares these times with the clock.
"""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from launcher.core.control.timing import SELF_STOP_S
from launcher.core.model.nodeset import NodeName
from launcher.core.model.simulation import Fault, FaultKind, SimSettings
from launcher.sim import faults as fault_table
from launcher.sim.faults import SLOWNESS, strike
from launcher.sim.reach import Stretch, within
from launcher.sim.world import NEVER, Rank, Raylet, SimHost

JITTER = 0.2
SETUP_SHARE = 0.3
SIGNAL_S = 1.0
NOTICE_KILL_S = 3.0
NOTICE_SILENCE_S = 18.0
"""How long Ray takes to notice a killed raylet and a silent host, measured with our health checks (s)."""
SIGNALLED = 128
"""A shell reports the death by signal n as 128 + n."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """The faults and silences of one node during a run.

    Its own faults by the clock, when it does not answer the launcher (`silent`), when it is cut off from all others,
    when from the head's machine, and when its agent stops itself because of it.
    """

    node: NodeName
    settings: SimSettings
    faults: tuple[Fault, ...] = ()
    silent: tuple[Stretch, ...] = ()
    cut: tuple[Stretch, ...] = ()
    severed: tuple[Stretch, ...] = ()
    stops: tuple[float, ...] = ()
    off_at: float | None = None

    def start_s(self, begun: float) -> float:
        """Return the time until a raylet begun then is known to Ray (s).

        It depends on the node, and on `slow_start`.
        """
        spread = zlib.crc32(f"{self.settings.seed}:{self.node}".encode()) / 0xFFFFFFFF
        slow = SLOWNESS if fault_table.during(self.faults, FaultKind.SLOW_START, begun) else 1.0
        return self.settings.start_s * slow * (1 - JITTER + 2 * JITTER * spread)

    def killed(self, begun: float, *kinds: FaultKind) -> float:
        """Return when something begun then is killed by one of these faults.

        NEVER if by none.
        """
        return min((strike(self.faults, kind, begun)[0] for kind in kinds), default=NEVER)

    def dark(self, begun: float) -> float:
        """Return when something begun then ends with its machine's power; or NEVER."""
        ordered = self.off_at if self.off_at is not None and begun <= self.off_at else NEVER
        return min(ordered, self.killed(begun, FaultKind.POWER_CUT))

    def self_stop(self, begun: float) -> float:
        """Return when the agent kills what was begun then, in its self-stop.

        The head's machine has been silent for too long.
        """
        return min((at for at in self.stops if begun < at), default=NEVER)

    def stopped(self, begun: float) -> Stretch:
        """Return when a raylet begun then is stopped for so long that Ray drops it.

        From when, and until when.
        """
        for fault in self.faults:
            begins, ends = fault_table.window(fault)
            if fault.fault is FaultKind.RAYLET_STOPPED and begun < begins and ends - begins >= NOTICE_SILENCE_S:
                return begins, ends
        return NEVER, NEVER


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
        """Whether its process lives."""
        return self.raylet.begun_at <= now < self.dies

    def known(self, now: float) -> bool:
        """Whether Ray has ever seen it."""
        return self.ready <= now and self.ready < self.dies

    def trusted(self, now: float) -> bool:
        """Whether Ray holds it for alive."""
        return self.known(now) and now < self.noticed


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLife:
    """When a rank ends, and from when on it writes nothing.

    With `code` None it ends without an exit status. `slow` is from when to when it is slow; None where ranks say
    nothing of their steps.
    """

    rank: Rank
    ends: float
    code: int | None
    hangs: float = NEVER
    slow: Stretch | None = None

    def alive(self, now: float) -> bool:
        """Whether it runs."""
        return now < self.ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The lives of all that was begun on a node."""

    host: SimHost
    around: Circumstances
    agent_dies: float
    setup: SetupLife | None
    raylets: tuple[RayletLife, ...]
    ranks: tuple[RankLife, ...]

    def reachable(self, now: float) -> bool:
        """Whether the node can be reached."""
        return within(self.around.silent, now) is None

    def answers(self, now: float) -> bool:
        """Whether the node answers other machines."""
        return within(self.around.cut, now) is None

    def unheard(self, now: float) -> float:
        """Return how long node and head's machine have not reached each other (s)."""
        stretch = within(self.around.severed, now)
        return now - max(stretch[0], self.host.agent_at or 0.0) if stretch else 0.0

    def hears(self, now: float) -> bool:
        """Whether the agent there ever had an answer of the head's machine.

        Only then it counts its silence.
        """
        stretch = within(self.around.severed, now)
        return stretch is None or (self.host.agent_at or 0.0) < stretch[0]

    def restless(self, now: float) -> bool:
        """Whether what is seen here changes from moment to moment."""
        dead = self.host.agent_at is not None and now > self.agent_dies
        changing = (one.hangs <= now or one.ends <= now or one.slow is not None for one in self.ranks)
        return dead or self.unheard(now) > 0 or any(changing)

    def agent(self, now: float) -> bool:
        """Whether an agent runs there."""
        return self.host.agent_at is not None and now < self.agent_dies

    def raylet(self, now: float) -> RayletLife | None:
        """Return the newest raylet that lives."""
        return next((life for life in reversed(self.raylets) if life.alive(now)), None)

    def after(self, now: float) -> float:
        """Return the first time after a time at which something here changes.

        NEVER if nothing will.
        """
        around = self.around
        moments = [self.agent_dies, *(at for one in (*around.silent, *around.severed) for at in one)]
        moments += [self.setup.ends] if self.setup else []
        moments += [at for life in self.raylets for at in (life.ready, life.dies, life.noticed)]
        moments += [at for life in self.ranks for at in (life.ends, life.hangs)]
        return min((at for at in moments if at > now), default=NEVER)


def life(host: SimHost, around: Circumstances) -> Life:
    """Return the lives of all that a node's row says was begun there."""
    raylets = tuple(_raylet(raylet, around) for raylet in host.raylets)
    dies = {one.raylet.generation: one.dies for one in raylets}
    return Life(
        host=host,
        around=around,
        agent_dies=agent_dies(_or_never(host.agent_at), around),
        setup=_setup(host, around),
        raylets=raylets,
        ranks=tuple(_rank(rank, dies, around) for rank in host.ranks),
    )


def agent_dies(begun: float, around: Circumstances) -> float:
    """Return when an agent begun at a time is killed or loses its machine; NEVER if neither."""
    return min(around.killed(begun, FaultKind.AGENT_KILLED), around.dark(begun))


def _setup(host: SimHost, around: Circumstances) -> SetupLife | None:
    if host.setup is None:
        return None
    begun = host.setup.begun_at
    failing = fault_table.during(around.faults, FaultKind.SETUP_FAILS, begun)
    return SetupLife(ends=begun + SETUP_SHARE * around.start_s(begun), code=failing.code if failing else 0)


def _raylet(raylet: Raylet, around: Circumstances) -> RayletLife:
    begun = raylet.begun_at
    power, stop = around.dark(begun), around.self_stop(begun)
    stopped, goes_on = around.stopped(begun)
    killed = min(around.killed(begun, FaultKind.RAYLET_KILLED), _or_never(raylet.ended_at))
    dies, noticed = min(
        (killed, killed + NOTICE_KILL_S),
        (power, power + NOTICE_SILENCE_S),
        (stop, stop - SELF_STOP_S + NOTICE_SILENCE_S),
        (goes_on, goes_on),  # Ray tells it that it is dead, and it ends
    )
    noticed = min(noticed, stopped + NOTICE_SILENCE_S)
    return RayletLife(raylet=raylet, ready=begun + around.start_s(begun), dies=dies, noticed=noticed)


def _rank(rank: Rank, raylets: Mapping[int, float], around: Circumstances) -> RankLife:
    begun = rank.begun_at
    fails, fault = strike(around.faults, FaultKind.RANK_FAILS, begun)
    hangs = around.killed(begun, FaultKind.RANK_HANGS)
    ends: list[tuple[float, int | None]] = [
        (raylets.get(rank.generation, begun), None),
        (_or_never(rank.ended_at), None),
        (around.killed(begun, FaultKind.RANK_KILLED), None),
        (fails, fault.code if fault else None),
        (begun + around.settings.run_s if begun + around.settings.run_s < hangs else NEVER, 0),
    ]
    if rank.signalled_at is not None and rank.signalled is not None:
        ends.append((rank.signalled_at + SIGNAL_S, SIGNALLED + rank.signalled))
    at, code = min(ends, key=lambda end: end[0])
    slow = None
    if any(fault.fault is FaultKind.RANK_SLOW for fault in around.settings.faults):
        own = (fault_table.window(fault) for fault in around.faults if fault.fault is FaultKind.RANK_SLOW)
        slow = next(own, (NEVER, NEVER))
    return RankLife(rank=rank, ends=at, code=code, hangs=hangs, slow=slow)


def _or_never(at: float | None) -> float:
    return NEVER if at is None else at


def by_clock(faults: Iterable[Fault], began_at: float) -> tuple[Fault, ...]:
    """Return faults with the times of the clock.

    They are given from a run's first action on.
    """
    return tuple(replace(fault, at=fault.at + began_at) for fault in faults)
