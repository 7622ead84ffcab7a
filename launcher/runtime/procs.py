"""The processes of a run on this machine: found in /proc, and killed.

Everything that is started for a run carries `NVLAUNCH_MARK=<run>:<place>:<generation>[:<member>:<attempt>]` in its
environment; `place` is the node, or `@head` for the Ray head. A mark is inherited, so it finds what the tree of parents
loses: daemons, and children of a killed raylet.

A process that sets its title (Ray's agents, some inference engines) overwrites its environment in /proc with the mark.
It is recognised by its current folder, which is the run's own.
"""

import contextlib
import math
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import files
from .environment import AGENT_MARK, MARK

if TYPE_CHECKING:
    from .protocol_files import AgentSpec

CONTAINERS = "containers"
"""The folder in a run's scratch folder with the state of each container."""

HELD = "container"
"""The third part of the mark of a container: no generation, so that a kill of the node alone covers it."""

KILL_S = 20.0
GRACE_S = 1.0


@dataclass(frozen=True)
class ProcessId:
    """A live process.

    `start` is in clock ticks since boot: together with `pid` it is unique.
    """

    pid: int
    ppid: int
    start: int


@dataclass(frozen=True)
class Scope:
    """What a kill covers: a place, a generation, or a rank.

    Generation and attempt are the highest that it covers. `scratch` is the run's folder for Ray, which runs in
    `scratch/g<generation>`. `until` is when a rank began that must be spared (clock ticks since boot): a younger orphan
    without a mark may be its child. `containers` are the ids of the run's containers here: the names of their control
    groups have them. Marks with `spared` in place of a generation are not covered.
    """

    run: str
    place: str
    level: str = "node"
    generation: int = 0
    member: str = ""
    attempt: int = 0
    until: float = math.inf
    scratch: str = ""
    containers: tuple[str, ...] = ()
    spared: str = ""

    def covers(self, mark: str) -> bool:
        """Whether a process with this mark is in the scope."""
        run, place, generation, *rank = [*mark.split(":"), "", ""][:5]
        if (run, place) != (self.run, self.place):
            return False
        if self.level == "node":
            return not self.spared or generation != self.spared
        if self.level == "generation":
            return generation.isdecimal() and int(generation) <= self.generation
        return rank[0] == self.member and rank[1].isdecimal() and int(rank[1]) <= self.attempt


def find(pid: int) -> ProcessId | None:
    """Return a live process by number.

    None for one that is gone, or a zombie without threads.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # A zombie with threads is a process whose main thread has ended: it still computes.
    if fields[0] in (b"Z", b"X") and int(fields[17]) <= 1:
        return None
    return ProcessId(pid=pid, ppid=int(fields[1]), start=int(fields[19]))


def variable(pid: int, name: str) -> str | None:
    """Return a variable of a process's environment at its start.

    None without it, or where it cannot be read.
    """
    prefix = f"{name}=".encode()
    for item in _environment(pid).split(b"\0"):
        if item.startswith(prefix):
            return item[len(prefix) :].decode(errors="replace")
    return None


def _environment(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


def mark(pid: int, scope: Scope) -> str | None:
    """Return the mark of a process; None without one.

    For a process whose title overwrote its environment it follows from the current folder. A title overwrites from the
    front: a shell that a person opened in that folder has its environment whole.
    """
    found = variable(pid, MARK)
    if found is not None or b"=" in _environment(pid).partition(b"\0")[0]:
        return found
    try:
        at = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None
    if scope.scratch and f"{at}/".startswith(f"{scope.scratch}/g"):
        generation = at[len(scope.scratch) + 2 :].split("/")[0].split(" ")[0]
        return f"{scope.run}:{scope.place}:{generation}"
    return None


def everything() -> dict[int, ProcessId]:
    """Return every live process of the machine by number."""
    found = (find(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    return {process.pid: process for process in found if process}


def scan(scope: Scope, agent: int | None = None, known: Iterable[int] = ()) -> list[ProcessId]:
    """Return the processes in a scope: those with a mark, and all their descendants.

    `agent` is a subreaper whose own children are `known`. Another child of it without a mark is an orphan of a rank or
    of setup that cleared its environment: only its adoption shows that it belongs to the run.
    """
    table = everything()
    marks = {pid: mark(pid, scope) for pid in table}
    roots = {pid for pid, found in marks.items() if found and scope.covers(found)}
    started = set(known)
    if agent is not None:
        adopted = (p for p in table.values() if p.ppid == agent and p.pid not in started)
        roots |= {p.pid for p in adopted if not marks[p.pid] and p.start < scope.until}
    roots |= {p.pid for p in _orphans_inside(scope, table) if not marks[p.pid] and p.start < scope.until}
    spared = {agent, os.getpid()} | (set() if scope.level == "node" else _holders(scope, table, marks))
    return [table[pid] for pid in sorted(_with_descendants(roots, table) - spared)]


def _holders(scope: Scope, table: dict[int, ProcessId], marks: dict[int, str | None]) -> set[int]:
    """Return the processes that hold containers of a run, and those of engines that watch them: a rank has neither.

    Podman leaves a process without a mark behind, which the agent adopts, or the parent of the rank that started it.
    """
    mine = f"{scope.run}:{scope.place}:{HELD}"
    held = {pid for pid, found in marks.items() if found == mine}
    return held | {parent for pid in held if (parent := table[pid].ppid) in table and not marks[parent]}


def _orphans_inside(scope: Scope, table: dict[int, ProcessId]) -> Iterator[ProcessId]:
    """Return the processes in containers of a run whose parent is outside: adopted by the engine, not by the agent."""
    if not scope.containers:
        return
    inside = {pid for pid in table if any(one in _control_groups(pid) for one in scope.containers)}
    yield from (table[pid] for pid in inside if table[pid].ppid not in inside)


def _control_groups(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _with_descendants(roots: set[int], table: dict[int, ProcessId]) -> set[int]:
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.ppid, []).append(process.pid)
    found, todo = set(roots), list(roots)
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found


def kill(
    scope: Scope,
    agent: int | None = None,
    known: Iterable[int] = (),
    grace: float = GRACE_S,
    seconds: float = KILL_S,
) -> list[int]:
    """Kill a scope until two scans in a row are empty.

    Return the pids that are alive after `seconds`, else none.
    """
    deadline = time.monotonic() + seconds
    found = scan(scope, agent, known)
    if found and grace > 0:
        send(found, signal.SIGTERM)
        await_end(found, grace)
    empty = 0
    while empty < 2:
        found = scan(scope, agent, known)
        empty = 0 if found else empty + 1
        if found and time.monotonic() > deadline:
            return [process.pid for process in found]
        send(found, signal.SIGKILL)
        await_end(found, 0.5)
    return []


def send(processes: Iterable[ProcessId], number: int) -> None:
    """Send a signal to these processes, never to a later one with the same number."""
    for process in processes:
        with _handle(process) as handle:
            if handle is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(handle, number)


def await_end(processes: Iterable[ProcessId], seconds: float) -> bool:
    """Wait until all of these have ended; return whether they did within `seconds`."""
    deadline = time.monotonic() + seconds
    for process in processes:
        with _handle(process) as handle:
            if handle is not None and not _ended(handle, deadline - time.monotonic()):
                return False
    return True


def runs(handle: int) -> bool:
    """Whether the process of a pidfd has not ended."""
    return not _ended(handle, 0.0)


def _ended(handle: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))


@contextlib.contextmanager
def _handle(process: ProcessId) -> Iterator[int | None]:
    """A pidfd of the process; None where it is gone.

    The start is compared after opening: a pidfd stays with its process.
    """
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        now = find(process.pid)
        yield handle if now and now.start == process.start else None
    finally:
        os.close(handle)


def agents(run: str, place: str) -> list[ProcessId]:
    """Return the agents of a run and place on this machine: one or none."""
    table = everything()
    return [p for p in table.values() if variable(p.pid, AGENT_MARK) == f"{run}:{place}" and p.pid != os.getpid()]


def of_spec(spec: "AgentSpec") -> Scope:
    """Return the scope of everything at an agent's place."""
    ids = tuple(found["id"] for path in _states(spec["scratch"]) if (found := files.read(path)) and found.get("id"))
    return Scope(run=spec["run"], place=spec["place"], scratch=spec["scratch"], containers=ids)


def _states(scratch: str) -> list[Path]:
    try:
        return sorted((Path(scratch) / CONTAINERS).glob("*.json"))
    except OSError:
        return []
