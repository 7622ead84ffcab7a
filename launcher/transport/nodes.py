"""The `Nodes` port over a shell: each action is a question to a keeper, or what makes a keeper ask itself."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from launcher.core.actions import (
    Answer,
    Claim,
    Join,
    Level,
    PowerOff,
    Prepare,
    Reserve,
    Result,
    Signal,
    Start,
    StartHead,
    Sweep,
    Unclaim,
    Unit,
    Unreserve,
    Verify,
)
from launcher.core.fleet import Access, NodeName
from launcher.core.health import Health
from launcher.core.observation import Sighting, Unseen
from launcher.core.run import Run
from launcher.core.seat import MemberName
from launcher.errors import LaunchError, RemoteError
from launcher.ports import Command, Hear, LogName, LogPart, Shell, Take
from launcher.transport import commands, decode, drivers, fence, inspect, provision, ranks
from launcher.transport.answers import done, killed
from launcher.transport.heads import Heads
from launcher.transport.site import Json, Site, ask_all
from launcher.transport.sites import Sites

LOOK_S = 6.0
ASK_S = 10.0
SWEEP_S = 30.0
STOP_S = 60.0
FAN_OUT = 256
"""Machines that are looked at at once: a silent one holds its place until its deadline."""


class ShellNodes:
    """The machines of runs, reached by a shell; see `Nodes` for what each method answers."""

    def __init__(self, sites: Sites, shell: Shell, owner: str) -> None:
        self._sites = sites
        self._shell = shell
        self._provision = provision.Provision(sites, owner)
        self._heads = Heads(sites)
        self._pool = ThreadPoolExecutor(max_workers=FAN_OUT, thread_name_prefix="look")

    def look(self, run: Run) -> Sighting:
        """Answer what exists of the run on each of its nodes and on its head, all asked at once."""
        names = [node.name for node in run.fleet.nodes]
        told = self._ask_all([*(self._sites.seat(run, name) for name in names), self._sites.head(run)])
        drivers.follow(run, told[:-1])
        drivers.add_groups(run, told[-1].get("supervisor", {}))
        views = {name: decode.node_view(answer) for name, answer in zip(names, told[:-1], strict=True)}
        return Sighting(nodes=views, head=decode.head_view(told[-1], names))

    def _ask_all(self, sites: Sequence[Site]) -> list[Json]:
        """Answer the status of each site; one process on each machine asks for all that are there."""
        machines: dict[Access | None, list[int]] = {}
        for index, site in enumerate(sites):
            machines.setdefault(site.machine, []).append(index)
        parts = list(machines.values())
        asked = [self._pool.submit(_status, [sites[index] for index in part]) for part in parts]
        answers: dict[int, Json] = {}
        for part, future in zip(parts, asked, strict=True):
            answers.update(zip(part, future.result(), strict=True))
        return [answers[index] for index in range(len(sites))]

    def claim(self, run: Run, action: Claim) -> Answer:
        """Take the node's lease and start its keeper."""
        return _timed("claim", lambda: self._provision.keep(run, self._sites.seat(run, action.node)))

    def prepare(self, run: Run, action: Prepare) -> Answer:
        """Put scripts, secrets and workdir on the node and start its setup."""
        return _timed("prepare", lambda: self._provision.prepare(run, action))

    def start_head(self, run: Run, action: StartHead) -> Answer:
        """Start the Ray head and the supervisor."""
        del action

        def act() -> Answer:
            kept = self._provision.keep(run, self._sites.head(run))
            ready = self._provision.prepare_head(run) if kept.result is Result.DONE else kept
            return self._heads.start(run) if ready.result is Result.DONE else ready

        return _timed("start_head", act)

    def join(self, run: Run, action: Join) -> Answer:
        """Start the raylet of a seat."""
        return _timed("join", lambda: self._heads.join(run, action.seat))

    def reserve(self, run: Run, action: Reserve) -> Answer:
        """Ask Ray for the slice's placement group."""
        return _timed("reserve", lambda: self._heads.reserve(run, action.slice))

    def unreserve(self, run: Run, action: Unreserve) -> Answer:
        """Remove the slice's placement group."""
        return _timed("unreserve", lambda: self._heads.unreserve(run, action.slice))

    def verify(self, run: Run, action: Verify) -> Answer:
        """Answer with the bundles of the slice as Ray has them now."""
        return _timed("verify", lambda: self._heads.verify(run, action.slice))

    def start(self, run: Run, action: Start) -> Answer:
        """Start the ranks of a gang for an epoch."""
        return _timed("start", lambda: ranks.start(self._sites, self._heads, run, action))

    def signal(self, run: Run, action: Signal) -> Answer:
        """Send the stop signal to the ranks on a node."""
        site = self._sites.seat(run, action.node)
        question = {"op": "signal", "signal": action.signal}
        return _timed("signal", lambda: done(site.ask(question, timeout=ASK_S)))

    def sweep(self, run: Run, action: Sweep) -> Answer:
        """Kill by marker at a level."""
        site = self._sites.seat(run, action.node)
        question: Json = {"op": "sweep", "level": action.level.value}
        if action.level is Level.GENERATION:
            question |= {"member": action.member, "generation": action.generation}
        if action.level is Level.RANK:
            question |= {"member": action.member, "epoch": action.epoch}

        def act() -> Answer:
            told = site.ask(question, timeout=SWEEP_S)
            if told.get("absent"):  # nothing of ours is there, not even what could look for it
                self._provision.put(run, site)
                told = site.ask(question, timeout=SWEEP_S)
            return killed(told)

        return _timed("sweep", act)

    def unclaim(self, run: Run, action: Unclaim) -> Answer:
        """Kill all of the run on a unit, stop its keeper, let go of the lease."""
        seat = action.unit is Unit.SEAT and action.node is not None
        site = self._sites.seat(run, action.node) if seat and action.node else self._sites.head(run)

        def act() -> Answer:
            self._provision.put(run, site)
            return killed(site.answer("alone", "stop", site.layout.root, timeout=STOP_S))

        return _timed("unclaim", act)

    def power_off(self, run: Run, action: PowerOff) -> Answer:
        """Run the inventory's `fence_command` for a node, on this machine."""
        return _timed("power_off", lambda: fence.power_off(run.fleet.fence_command, run.node(action.node)))

    def inspect(self, run: Run, node: NodeName) -> Health | Unseen:
        """Answer what a node shows of its own health."""
        return inspect.inspect(self._sites.seat(run, node), run.node(node))

    def read_log(self, run: Run, node: NodeName, log: LogName, offset: int) -> LogPart:
        """Answer what stands in a log from a byte offset on; RemoteError where the node cannot be asked."""
        return ranks.read_log(self._sites.seat(run, node), log, offset)

    def exec_command(self, run: Run, node: NodeName, command: Command, hear: Hear) -> int:
        """Run a command beside a rank until it ends; answer its exit status."""
        return commands.execute(self._sites.seat(run, node), run, run.node(node), command, hear)

    def stop_command(self, run: Run, node: NodeName, command: Command) -> None:
        """End a command and all that it started."""
        commands.stop(self._sites.seat(run, node), command)

    def fetch(self, run: Run, node: NodeName, path: str, take: Take) -> tuple[str, ...]:
        """Send a file or folder of a node to `take`, as a tar stream; answer what was left out, and why."""
        return commands.fetch(self._sites.seat(run, node), path, take)

    def visit(self, run: Run, node: NodeName, member: MemberName | None) -> tuple[str, ...]:
        """Answer the program that opens a terminal on a node."""
        return commands.visit(self._sites.seat(run, node), member)

    def close(self) -> None:
        """Let go of connections; the nodes go on."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._shell.close()


def _status(sites: list[Site]) -> list[Json]:
    return ask_all(sites, {"op": "status"}, timeout=LOOK_S)


def _timed(stage: str, act: Callable[[], Answer]) -> Answer:
    """Answer what came of an action, with its time; what went wrong on one machine is an answer too."""
    begun = time.monotonic()
    try:
        answer = act()
    except LaunchError as error:
        tail = error.tail if isinstance(error, RemoteError) else ()
        answer = Answer(result=Result.FAILED, words=error.advice, tail=tail)
    return replace(answer, stage=stage, elapsed=time.monotonic() - begun)
