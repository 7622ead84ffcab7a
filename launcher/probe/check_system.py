"""Checks of the system of a node for running Ray: one function for each fact."""

from collections.abc import Iterable, Sequence

from launcher.core.model.address import canonical, is_loopback
from launcher.core.model.inventory import Node
from launcher.probe.findings import Fact, Finding, bad, cannot_tell, good, not_applicable
from launcher.probe.node_facts import Facts
from launcher.probe.resources import Space
from launcher.probe.results import Unknown

GIB = 1024**3

MIN_PYTHON = (3, 10)
"""Required by Ray 2.60."""

MIN_RAY = (2, 60)
"""The first Ray that can keep a placement group in one domain (`topology_strategy` on a label)."""

MAX_SKEW = 1.0
"""Seconds; with more, the logs of a run cannot be merged in order."""

MAX_SKEW_TO_START = 60.0
"""Seconds; with more, certificates, tickets and file times are wrong."""

MAX_FULL = 0.95
"""Used share of a disk above which Ray refuses new objects (`local_fs_capacity_threshold`)."""

MIN_FREE = 1 * GIB
MIN_FREE_INODES = 10_000
MIN_SHARED_MEMORY = 2 * GIB
"""Bytes; with less, Ray puts its object store on disk."""

MAX_RESOLVE = 2.0
"""Seconds; each lookup of the host name that times out delays `ray start` by about ten seconds."""

FIRST_USER = 1000
"""The first id of normal users: logind keeps the processes and the shared memory of users below it."""


def host(facts: Facts, _node: Node) -> Finding:
    """Check that Python is built for the architecture of the host."""
    if isinstance(facts.host, Unknown):
        return cannot_tell(Fact.HOST, facts.host.why)
    found, python = facts.host, facts.python
    if not isinstance(python, Unknown) and python.machine != found.machine:
        message = f"`{python.executable}` is built for {python.machine}, but the machine is {found.machine}"
        return bad(Fact.HOST, message)
    return good(Fact.HOST, f"{found.user}@{found.hostname}, {found.machine}, kernel {found.kernel}")


def clock(facts: Facts, _node: Node) -> Finding:
    """Check the difference between the clock of the node and ours."""
    if isinstance(facts.clock, Unknown):
        return cannot_tell(Fact.CLOCK, facts.clock.why)
    off = abs(facts.clock)
    message = f"{off:.1f} s {'ahead of' if facts.clock > 0 else 'behind'} this machine"
    if off <= MAX_SKEW:
        return good(Fact.CLOCK, message)
    return bad(Fact.CLOCK, f"{message}; synchronise it with chrony or ntpd", stops=off > MAX_SKEW_TO_START)


def python(facts: Facts, node: Node) -> Finding:
    """Check the version of the Python for Ray."""
    if isinstance(facts.python, Unknown):
        return _no_python(facts.python, node)
    version = ".".join(map(str, facts.python.version))
    if node.access.python is None and facts.python.version[:2] < MIN_PYTHON:
        message = f"the system has {version}, but Ray requires 3.10 or later; set `python:` in the inventory"
        return bad(Fact.PYTHON, message)
    if node.access.python is None:
        return good(Fact.PYTHON, f"{version} of the system; an environment is created once for each user")
    if facts.python.version[:2] < MIN_PYTHON:
        return bad(Fact.PYTHON, f"`{node.access.python}` is {version}, but Ray requires 3.10 or later")
    return good(Fact.PYTHON, version)


def _no_python(unknown: Unknown, node: Node) -> Finding:
    if node.access.python is not None and (unknown.missing or unknown.failed):
        return bad(Fact.PYTHON, f"{unknown.why}; correct `python:` in the inventory")
    return cannot_tell(Fact.PYTHON, unknown.why, stops=node.access.python is not None)


def ray(facts: Facts, node: Node) -> Finding:
    """Check the version of Ray of the Python that the inventory names."""
    if node.access.python is None:
        return not_applicable(Fact.RAY, "installed for each run")
    if isinstance(facts.python, Unknown):
        return cannot_tell(Fact.RAY, facts.python.why, stops=True)
    found = facts.python.ray
    if found is None:
        message = (
            f"`{node.access.python}` has no Ray; install it, or remove `python:` to have it installed for each run"
        )
        return bad(Fact.RAY, message)
    numbers = release(found)
    if numbers is None:
        return cannot_tell(Fact.RAY, f"version `{found}` cannot be parsed")
    if numbers < MIN_RAY:
        return bad(Fact.RAY, f"{found} cannot keep a slice in one domain; 2.60 or later is required")
    return good(Fact.RAY, found)


def release(version: str) -> tuple[int, ...] | None:
    """Return major and minor of a version, `(2, 60)` for `2.60.0rc1`.

    None if it is not a version.
    """
    parts = version.split(".")[:2]
    if len(parts) < 2 or not all(part.isascii() and part.isdecimal() and len(part) < 6 for part in parts):
        return None
    return tuple(map(int, parts))


def disk(facts: Facts, _node: Node) -> Finding:
    """Check the free space for Ray, for logs, and for files of a run."""
    hidden = [space.why for space in facts.spaces if isinstance(space, Unknown)]
    spaces = _apart([space for space in facts.spaces if isinstance(space, Space)])
    wrong = [message for space in spaces for message in _wrong(space)]
    if wrong:
        return bad(Fact.DISK, "; ".join(wrong[:3]), *wrong)
    if hidden or not spaces:
        return cannot_tell(Fact.DISK, "; ".join(hidden) or "no path was checked", stops=True)
    least = min(spaces, key=lambda space: space.free)
    return good(Fact.DISK, f"{_size(least.free)} free at `{least.path}`")


def _apart(spaces: Sequence[Space]) -> list[Space]:
    """Return the first path of each file system; those whose file system is unknown are all kept."""
    return list({space.device or space.path: space for space in reversed(spaces)}.values())[::-1]


def _wrong(space: Space) -> Iterable[str]:
    if space.free < MIN_FREE:
        yield f"`{space.path}` has {_size(space.free)} free, but a run needs {_size(MIN_FREE)}"
    elif space.bytes > 0 and (full := 1 - space.free / space.bytes) > MAX_FULL:
        yield (
            f"`{space.path}` is {full:.1%} full, with {_size(space.free)} free; Ray stops at {MAX_FULL:.0%}, "
            f"so free {_size(int((1 - MAX_FULL) * space.bytes - space.free))} of it"
        )
    if space.inodes > 0 and space.free_inodes < MIN_FREE_INODES:
        yield f"`{space.path}` has {space.free_inodes} free inodes, but a run needs {MIN_FREE_INODES}"


def _size(count: int) -> str:
    return f"{count / GIB:.0f} GiB" if count >= 10 * GIB else f"{count / GIB:.1f} GiB"


def shared_memory(facts: Facts, _node: Node) -> Finding:
    """Check the shared memory for the object store of Ray."""
    found = facts.shared_memory
    if isinstance(found, Unknown):
        return cannot_tell(Fact.SHARED_MEMORY, found.why)
    if found.free < MIN_SHARED_MEMORY or not found.writable:
        message = f"{_size(found.free)} usable in `{found.path}`; Ray will store objects on disk, which is slow"
        return bad(Fact.SHARED_MEMORY, message, stops=False)
    return good(Fact.SHARED_MEMORY, f"{_size(found.free)} free")


def hostname(facts: Facts, node: Node) -> Finding:
    """Check that the node resolves its own host name, which `ray start` looks up, to what others can reach."""
    found = facts.hostname
    if isinstance(found, Unknown):
        return cannot_tell(Fact.HOSTNAME, found.why)
    known = "" if isinstance(facts.host, Unknown) else facts.host.hostname
    name = found.name or known
    if found.addresses and canonical(node.access.address) == canonical(name) and all(map(is_loopback, found.addresses)):
        message = (
            f"`{name}`, its address in the inventory, is {found.addresses[0]} on the node itself: programs may tell "
            "others to reach them there; write the node's own address in its /etc/hosts, or a number as `address`"
        )
        return bad(Fact.HOSTNAME, message, stops=False)
    if found.addresses and found.seconds <= MAX_RESOLVE:
        return good(Fact.HOSTNAME, f"`{name}` resolves to {found.addresses[0]}")
    how = f"resolves in {found.seconds:.0f} s" if found.addresses else f"does not resolve ({found.seconds:.0f} s)"
    message = f"`{name}` {how}, which delays `ray start`; add it to /etc/hosts or DNS"
    return bad(Fact.HOSTNAME, message, stops=False)


def logout(facts: Facts, _node: Node) -> Finding:
    """Check that the processes of a run survive the end of our last login session."""
    found = facts.logout
    if isinstance(found, Unknown):
        return cannot_tell(Fact.LOGOUT, found.why)
    ends = [
        message
        for holds, message in (
            (found.kill_processes, "`KillUserProcesses` kills its processes"),
            (found.remove_ipc, "`RemoveIPC` removes its shared memory"),
        )
        if holds
    ]
    system_user = not isinstance(facts.host, Unknown) and facts.host.uid < FIRST_USER
    if not ends or found.linger or system_user:
        return good(Fact.LOGOUT, "runs survive the end of login sessions")
    user = "USER" if isinstance(facts.host, Unknown) else facts.host.user
    what = f"a run ends with the last login session: {' and '.join(ends)}"
    message = f"{what}; prevent it with `sudo loginctl enable-linger {user}`"
    return bad(Fact.LOGOUT, message, stops=False)


def sudo(facts: Facts, _node: Node) -> Finding:
    """Report whether nvlaunch can set up IMEX itself; both answers are good."""
    if isinstance(facts.sudo, Unknown):
        return cannot_tell(Fact.SUDO, facts.sudo.why)
    return good(Fact.SUDO, "without a password" if facts.sudo else "needs a password: commands for root are printed")


def infiniband(facts: Facts, _node: Node) -> Finding:
    """Check the ports to other racks.

    Some may be unused by design, so a port that is down never prevents a start.
    """
    if isinstance(facts.infiniband, Unknown):
        return cannot_tell(Fact.INFINIBAND, facts.infiniband.why)
    if not facts.infiniband:
        return not_applicable(Fact.INFINIBAND, "no InfiniBand devices")
    down = [port for port in facts.infiniband if not port.active]
    active = len(facts.infiniband) - len(down)
    message = f"{active} of {len(facts.infiniband)} ports active"
    if down:
        shown = tuple(f"{port.device} port {port.port}: {port.state}" for port in down)
        devices = ", ".join(port.device for port in down[:8])
        return bad(Fact.INFINIBAND, f"{message}; down: {devices}", *shown, stops=False)
    return good(Fact.INFINIBAND, f"{message}, {facts.infiniband[0].rate}")
