"""The folders of ranks on a node: `ranks/<group>-<rank>/<attempt>/`.

Each holds `spec.json`, `state.json`, `exit.json`, `log` and `heartbeat`.
"""

import contextlib
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from . import files, logs, procs, readiness
from .deadline import now
from .protocol import RankStatusRow
from .protocol_files import RankExitFile, RankStateFile, ReadyFile
from .steps import StepTimes

HEARTBEAT = "heartbeat"
"""The file that a rank may touch as a sign of life, and write its steps into; `NVLAUNCH_HEARTBEAT` names it."""
STOPPING = "stopping"
"""The file that marks a rank as told to stop: it has ended when all of its processes have."""


class QuietTimes:
    """For how long each rank has written nothing, by a clock that nobody sets, and its `steps`.

    Counted from when an agent first looks, so that a new agent says 0.
    """

    def __init__(self, clock: Callable[[], float] = now) -> None:
        self.steps = StepTimes()
        self._clock = clock
        self._seen: dict[Path, tuple[tuple[tuple[int, int], ...], float]] = {}

    def of(self, folder: Path) -> float:
        """Return for how long a rank's log and heartbeat file have not changed (s)."""
        at, shown = self._clock(), tuple(_stamp(folder / name) for name in ("log", HEARTBEAT))
        before, since = self._seen.get(folder, (None, at))
        if shown != before:
            self._seen[folder], since = (shown, at), at
        return at - since


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


def statuses(folder: Path, quiet: QuietTimes, ends: Mapping[tuple[str, int], RankExitFile]) -> list[RankStatusRow]:
    """Return the newest attempt of each member, and older ones that live.

    Only attempts that began here count. `ends` has those of member and attempt that could not be written down.
    """
    try:
        members = sorted((folder / "ranks").iterdir())
    except FileNotFoundError:
        return []
    return [status for member in members for status in _of_member(member, quiet, ends)]


def _of_member(folder: Path, quiet: QuietTimes, ends: Mapping[tuple[str, int], RankExitFile]) -> list[RankStatusRow]:
    attempts = sorted((int(name) for name in os.listdir(folder) if name.isdecimal()), reverse=True)
    found: list[RankStatusRow] = []
    for attempt in attempts:
        # An attempt whose parent has not begun, or never did, has no status, and must not hide the one before it.
        status = _status(folder / str(attempt), quiet, ends)
        if status and (status["running"] or not found):
            found.append(status)
    return found[::-1]


def _status(folder: Path, quiet: QuietTimes, ends: Mapping[tuple[str, int], RankExitFile]) -> RankStatusRow | None:
    state = _state(folder)
    if state is None:
        return None
    member, attempt = state["member"], state["attempt"]
    end = _exit(folder) or ends.get((member, attempt))
    if end is None and alive(state):
        running: RankStatusRow = {"member": member, "attempt": attempt, "running": True, "quiet": quiet.of(folder)}
        if (step := quiet.steps.of(folder, HEARTBEAT)) is not None:
            running["step"] = step
        _add_readiness(running, folder)
        return running
    end = end or _exit(folder) or ends.get((member, attempt))  # it may have ended between the two looks
    if end is None or end["code"] is None:
        tail = logs.tail(folder / "log")
        return {"member": member, "attempt": attempt, "running": False, "exit_code": None, "tail": tail}
    code = end["code"]
    status: RankStatusRow = {
        "member": member,
        "attempt": attempt,
        "running": False,
        "exit_code": code,
        "tail": logs.tail(folder / "log") if code else [],
    }
    if "since_boot" in end:  # not of a rank whose parent is of the version before
        status["ended_ago"] = max(0.0, now() - end["since_boot"])
    return status


def _add_readiness(running: RankStatusRow, folder: Path) -> None:
    """Add what is known of a rank's server, if it is asked."""
    found = cast("ReadyFile | None", files.read(folder / readiness.FILE))
    if found is not None:
        running["ready"] = found["ready"]
        if found["was"] and not found["ready"]:
            running["unready"] = max(0.0, now() - found["since"])


def _state(folder: Path) -> RankStateFile | None:
    found: Any = files.read(folder / "state.json")
    return cast("RankStateFile | None", found)


def _exit(folder: Path) -> RankExitFile | None:
    found: Any = files.read(folder / "exit.json")
    return cast("RankExitFile | None", found)


def alive(state: RankStateFile) -> bool:
    """Whether the parent of a rank's script lives, by number and start."""
    process = procs.find(state["pid"])
    return process is not None and process.start == state["start"]


def tell_to_stop(folder: Path, gang: str | None) -> None:
    """Mark the ranks here, or those of one gang, as told to stop."""
    for own, state in _living(folder):
        if gang is None or state["gang"] == gang:
            with contextlib.suppress(OSError):  # a full disk: then a rank ends with its script
                (own / STOPPING).touch()


def living(folder: Path) -> list[RankStateFile]:
    """Return the states of the ranks whose parent lives, of any attempt."""
    return [state for _, state in _living(folder)]


def _living(folder: Path) -> Iterator[tuple[Path, RankStateFile]]:
    for path in (folder / "ranks").glob("*/*/state.json"):
        state = _state(path.parent)
        if state and alive(state):
            yield path.parent, state


def others_began(folder: Path, member: str, attempt: int) -> float:
    """Return when the first living other rank began (clock ticks since boot).

    Others are those of another member or a later attempt.
    """
    others = (state for state in living(folder) if state["member"] != member or state["attempt"] > attempt)
    return min((float(state["start"]) for state in others), default=math.inf)


def processes(
    folder: Path, node: procs.Scope, gang: str | None, agent: int, known: Collection[int]
) -> list[procs.ProcessId]:
    """Return the processes of the living ranks here, or of those of one gang.

    See `procs.scan` for `agent`.
    """
    chosen = [state for state in living(folder) if gang is None or state["gang"] == gang]
    found: dict[int, procs.ProcessId] = {}
    for member, attempt in {(state["member"], state["attempt"]) for state in chosen}:
        until = math.inf if gang is None else others_began(folder, member, attempt)
        scope = replace(node, level="rank", member=member, attempt=attempt, until=until)
        found.update({one.pid: one for one in procs.scan(scope, agent, known)})
    return list(found.values())


def signal(folder: Path, node: procs.Scope, number: int, gang: str | None, agent: int, known: Collection[int]) -> int:
    """Send a signal to every process of the ranks here, or of those of one gang, but for their parents.

    Return to how many. They count as told to stop.
    """
    parents = {state["pid"] for state in living(folder)}
    found = processes(folder, node, gang, agent, known)
    tell_to_stop(folder, gang)
    told = [process for process in found if process.pid not in parents]
    procs.send(told, number)
    return len(told)
