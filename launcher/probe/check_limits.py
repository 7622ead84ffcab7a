"""Checks of the limits of a login: open files, locked memory, processes."""

from launcher.core.model.inventory import Node
from launcher.probe.findings import Fact, Finding, bad, cannot_tell, good, not_applicable
from launcher.probe.limits import Limits, UserLimit
from launcher.probe.node_facts import Facts
from launcher.probe.results import Unknown

MIN_OPEN_FILES = 8_192
"""Open files that Ray requires to start a worker; it raises the soft limit to the hard one itself."""

MIN_LOCKED_MEMORY = 16 * 1024**3
"""Bytes; InfiniBand locks the memory that it sends from, and NCCL's buffers alone take some GiB for four GPUs."""

TO_START = 400
"""Processes and threads of the agent, Ray's six processes and one rank, with cores counted in `FOR_CORE_TO_START`."""

FOR_CORE_TO_START = 2
"""Each process of Ray starts a thread for some of the cores: https://github.com/ray-project/ray/issues/54225."""

TO_WORK = 1_000
FOR_CORE_TO_WORK = 64
"""Ray starts a worker for each core if a driver asks for that, and a worker of 144 cores has some 60 threads."""

_NOFILE = ("nofile", "NOFILE", "65535")
_MEMLOCK = ("memlock", "MEMLOCK", "infinity")
_NPROC = ("nproc", "NPROC", "infinity")


def open_files(facts: Facts, _node: Node) -> Finding:
    """Check the hard limit of open files, up to which Ray raises its own limit."""
    if isinstance(facts.limits, Unknown):
        return cannot_tell(Fact.OPEN_FILES, facts.limits.why)
    found = facts.limits.open_files
    if found.hard == -1 or found.hard >= MIN_OPEN_FILES:
        return good(Fact.OPEN_FILES, "no limit" if found.hard == -1 else str(found.hard))
    message = f"limit {found.hard}, but Ray needs {MIN_OPEN_FILES}; {_lift(found, *_NOFILE)}"
    return bad(Fact.OPEN_FILES, message, stops=False)


def locked_memory(facts: Facts, _node: Node) -> Finding:
    """Check how much memory InfiniBand may lock; other networks lock none."""
    if isinstance(facts.limits, Unknown):
        return cannot_tell(Fact.LOCKED_MEMORY, facts.limits.why)
    if isinstance(facts.infiniband, Unknown):
        return cannot_tell(Fact.LOCKED_MEMORY, facts.infiniband.why)
    found = facts.limits.locked_memory
    if not facts.infiniband:
        return not_applicable(Fact.LOCKED_MEMORY, "no InfiniBand devices")
    if found.hard == -1 or found.hard >= MIN_LOCKED_MEMORY or facts.limits.root:
        return good(Fact.LOCKED_MEMORY, "no limit" if found.hard == -1 else f"{found.hard // 1024**2} MiB")
    message = (
        f"limit {found.hard // 1024} KiB, but InfiniBand needs {MIN_LOCKED_MEMORY // 1024**3} GiB: "
        f"{_lift(found, *_MEMLOCK)}"
    )
    return bad(Fact.LOCKED_MEMORY, message, stops=False)


def processes(facts: Facts, _node: Node) -> Finding:
    """Check how many more processes and threads may start: the least of `ulimit -u` and `pids.max` of all groups."""
    found = facts.limits
    if isinstance(found, Unknown):
        return cannot_tell(Fact.PROCESSES, found.why)
    if found.room is None:
        return good(Fact.PROCESSES, "no limit")
    room, by = found.room
    work = TO_WORK + FOR_CORE_TO_WORK * found.cores
    if room >= work:
        return good(Fact.PROCESSES, f"room for {room}: {by}")
    start = TO_START + FOR_CORE_TO_START * found.cores
    need = f"a run needs {start} to start" if room < start else f"{work} are advised for {found.cores} cores"
    message = f"room for {max(0, room)} more processes and threads ({by}), but {need}; {_lift_processes(found)}"
    return bad(Fact.PROCESSES, message, stops=room < start)


def _lift_processes(found: Limits) -> str:
    tightest = min(found.groups, key=lambda one: one.limit - one.used, default=None)
    if found.room is None or tightest is None or found.room[0] != tightest.limit - tightest.used:
        return _lift(found.processes, *_NPROC)
    unit = tightest.name.rpartition("/")[2]
    if unit.endswith((".slice", ".service", ".scope")):
        return f"`sudo systemctl set-property {unit} TasksMax=infinity`"
    return "raise it for the container"


def _lift(found: UserLimit, item: str, directive: str, value: str) -> str:
    """Return how to raise a limit where it is set."""
    if found.source == "sshd":
        drop_in = f"`Limit{directive}={value}` under `[Service]` by `sudo systemctl edit ssh` (`sshd` on RHEL)"
        return f"it is that of the SSH server: write {drop_in}, and restart it"
    written = "unlimited" if value == "infinity" else value
    if found.source:
        return f"raise it in {found.source}"
    file = "/etc/security/limits.d/nvlaunch.conf"
    return f"write `* - {item} {written}` to {file}, and look for `ulimit` in the start-up files of the shell"
