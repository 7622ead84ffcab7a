"""The `Nodes` port over an imaginary fleet. Nothing takes real time.

Its rows are shared by several processes.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from launcher.core.model.actions import (
    Acquire,
    Announce,
    Join,
    Kill,
    NodeAction,
    Park,
    PowerOff,
    PowerQuery,
    Prepare,
    Release,
    Reserve,
    Signal,
    Start,
    StartHead,
    Unit,
    Unreserve,
    Verify,
)
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Health, Sighting, Unseen
from launcher.core.model.receipt import Answer
from launcher.core.model.run import MemberName, Run, RunId
from launcher.core.model.simulation import SimSettings
from launcher.errors import LaunchError
from launcher.ports import Clock, Command, Hear, LogName, LogPart, Take
from launcher.sim import commands, logs, node_acts, ray_acts
from launcher.sim.clock import SimClock
from launcher.sim.faults import health
from launcher.sim.fleet import SimFleet
from launcher.sim.world import HeldRows, Rows

LOG_LIMIT = 1 << 20


class SimNodes:
    """The machines of imaginary fleets.

    Each run has a clock of its own, the one that every `SimClock` of it shows. The actions are in `node_acts` and
    `ray_acts`.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = HeldRows(rows)
        self._turn = threading.RLock()
        self._fleets: dict[RunId, tuple[SimFleet, Clock]] = {}

    def look(self, run: Run) -> Sighting:
        """Return what exists of the run now."""
        with self._turn:
            fleet, clock = self._open(run)
            return fleet.look(clock.now())

    def perform(self, run: Run, action: NodeAction) -> Answer:
        """Carry out an action; it changes the rows of the fleet at once."""
        with self._turn:
            fleet, clock = self._open(run)
            return ACTS[type(action)](fleet, run, action, clock.now())

    @contextmanager
    def together(self) -> Iterator[None]:
        """Store what actions of this block change at its end, at once."""
        with self._turn, self._rows.together():
            yield

    def inspect(self, run: Run, node: NodeName) -> Health | Unseen:
        """Return the health of a node, by its faults."""
        with self._turn:
            fleet, clock = self._open(run)
            now = clock.now()
            if not fleet.life(node).reachable(now):
                return Unseen(message=f"no answer from `{node}`")
            return health(fleet.circumstances(node).faults, now)

    def read_log(self, run: Run, node: NodeName, log: LogName, offset: int) -> LogPart:
        """Return what a rank, or the agent, of a node has written from a byte on.

        Nothing where none was begun.
        """
        with self._turn:
            fleet, clock = self._open(run)
            life, now = fleet.life(node), clock.now()
        ranks = [one for one in life.ranks if one.rank.member == log.member and log.attempt in (0, one.rank.attempt)]
        attempt, data = log.attempt, b""
        if log.member is None:
            data = logs.provision_log(life, node, now)
        elif ranks:
            settings, newest = run.fleet.sim or SimSettings(), ranks[-1]
            attempt = newest.rank.attempt
            data = logs.rank_log(run, node_acts.member(run, log.member), node, newest, now, settings.run_s)
        begin = max(0, len(data) + offset) if offset < 0 else offset
        part = data[begin : begin + LOG_LIMIT]
        exists = log.member is None or bool(ranks)
        return LogPart(data=part, next_offset=begin + len(part), attempt=attempt, exists=exists)

    def exec_command(self, run: Run, node: NodeName, command: Command, hear: Hear) -> int:
        """Pretend to run a command beside a rank; return its exit status."""
        with self._turn:
            fleet, clock = self._open(run)
            return commands.execute(fleet, run, node, command, hear, clock.now())

    def stop_command(self, run: Run, node: NodeName, command: Command) -> None:
        """Nothing: a command is over when it has begun."""

    def fetch(self, run: Run, node: NodeName, path: str, take: Take) -> tuple[str, ...]:
        """Send a made-up file to `take`, as a tar stream."""
        with self._turn:
            fleet, clock = self._open(run)
            return commands.fetch(fleet, node, path, take, clock.now())

    def visit(self, run: Run, node: NodeName, member: MemberName | None) -> tuple[str, ...]:
        """Raise LaunchError: there is no machine."""
        del run, member
        raise LaunchError(f"`{node}` is imaginary: there is no shell to open")

    def close(self) -> None:
        """Forget what was read; the rows stay."""
        with self._turn:
            self._fleets.clear()

    def _open(self, run: Run) -> tuple[SimFleet, Clock]:
        known = self._fleets.get(run.id)
        if known is None or not _same(known[0].run, run):
            self._fleets[run.id] = SimFleet(run, self._rows), SimClock(self._rows, run)
        return self._fleets[run.id]


def _release(fleet: SimFleet, run: Run, action: Release, now: float) -> Answer:
    release = ray_acts.release_head if action.unit is Unit.HEAD else node_acts.release
    return release(fleet, run, action, now)


ACTS: Mapping[type[NodeAction], Callable[..., Answer]] = {
    Acquire: node_acts.acquire,
    Prepare: node_acts.prepare,
    StartHead: ray_acts.start_head,
    Join: node_acts.join,
    Park: ray_acts.park,
    Reserve: ray_acts.reserve,
    Unreserve: ray_acts.unreserve,
    Verify: ray_acts.verify,
    Start: ray_acts.start,
    Announce: node_acts.announce,
    Signal: node_acts.signal,
    Kill: node_acts.kill,
    Release: _release,
    PowerOff: node_acts.power_off,
    PowerQuery: node_acts.power_query,
}
"""What each action does to an imaginary fleet."""


def _same(known: Run, run: Run) -> bool:
    """Whether a run has the nodes, the places and the head that it had."""
    if known.head != run.head:
        return False
    same = known.placement is run.placement and known.fleet is run.fleet
    return same or (known.placement == run.placement and known.fleet == run.fleet)
