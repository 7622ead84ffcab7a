"""Whether a node's system is fit to run Ray for a gang: one function a fact."""

from collections.abc import Iterable

from launcher.core.model.inventory import Node
from launcher.probe.answer import Unknown
from launcher.probe.collect import Facts
from launcher.probe.report import Fact, Finding, bad, cannot_tell, good, not_applicable
from launcher.probe.resources import Space

GIB = 1024**3

MIN_PYTHON = (3, 10)
"""What Ray 2.60 needs."""

MIN_RAY = (2, 60)
"""The first Ray that keeps a placement group within a domain (`topology_strategy` on a label)."""

MAX_SKEW = 1.0
"""Seconds; logs of a run can no longer be put in order beyond it."""

MAX_SKEW_TO_START = 60.0
"""Seconds; certificates, tickets and file times go wrong beyond it."""

MAX_FULL = 0.95
"""Share of a disk; Ray refuses new objects above it (`local_fs_capacity_threshold`)."""

MIN_FREE = 1 * GIB
MIN_FREE_INODES = 10_000
MIN_SHARED_MEMORY = 2 * GIB
"""Bytes; with less, Ray puts its object store on disk."""

MIN_OPEN_FILES = 8_192
"""What Ray asks for when a worker starts; it raises the soft limit to the hard one by itself."""

MAX_RESOLVE = 2.0
"""Seconds; each look-up of its own name that times out costs a node some ten seconds of `ray start`."""

FIRST_USER = 1000
"""Users below are the system's own: logind neither ends their processes nor removes their shared memory."""


def host(facts: Facts, _node: Node) -> Finding:
    """Judge who answers."""
    if isinstance(facts.host, Unknown):
        return cannot_tell(Fact.HOST, facts.host.why)
    found, python = facts.host, facts.python
    if not isinstance(python, Unknown) and python.machine != found.machine:
        message = f"`{python.executable}` is built for {python.machine}, the machine is {found.machine}"
        return bad(Fact.HOST, message)
    return good(Fact.HOST, f"{found.user}@{found.hostname}, {found.machine}, kernel {found.kernel}")


def clock(facts: Facts, _node: Node) -> Finding:
    """Judge how far the node's clock is from ours."""
    if isinstance(facts.clock, Unknown):
        return cannot_tell(Fact.CLOCK, facts.clock.why)
    off = abs(facts.clock)
    message = f"{off:.1f} s {'ahead of' if facts.clock > 0 else 'behind'} this machine"
    if off <= MAX_SKEW:
        return good(Fact.CLOCK, message)
    return bad(Fact.CLOCK, f"{message}: let chrony or ntpd set it", stops=off > MAX_SKEW_TO_START)


def python(facts: Facts, node: Node) -> Finding:
    """Judge the interpreter that Ray is to run on."""
    if isinstance(facts.python, Unknown):
        return _no_python(facts.python, node)
    version = ".".join(map(str, facts.python.version))
    if node.access.python is None and facts.python.version[:2] < MIN_PYTHON:
        message = f"{version} of the system, Ray needs 3.10 or later: name another one with `python:`"
        return bad(Fact.PYTHON, message)
    if node.access.python is None:
        return good(Fact.PYTHON, f"{version} of the system; the run gets an environment of its own")
    if facts.python.version[:2] < MIN_PYTHON:
        return bad(Fact.PYTHON, f"`{node.access.python}` is {version}, Ray needs 3.10 or later")
    return good(Fact.PYTHON, version)


def _no_python(unknown: Unknown, node: Node) -> Finding:
    if node.access.python is not None and (unknown.missing or unknown.failed):
        return bad(Fact.PYTHON, f"{unknown.why}: `python:` of the inventory names it")
    return cannot_tell(Fact.PYTHON, unknown.why, stops=node.access.python is not None)


def ray(facts: Facts, node: Node) -> Finding:
    """Judge the Ray that the given interpreter has."""
    if node.access.python is None:
        return not_applicable(Fact.RAY, "the run installs its own")
    if isinstance(facts.python, Unknown):
        return cannot_tell(Fact.RAY, facts.python.why, stops=True)
    found = facts.python.ray
    if found is None:
        return bad(Fact.RAY, f"`{node.access.python}` has no Ray; leave `python:` out to have one installed")
    numbers = release(found)
    if numbers is None:
        return cannot_tell(Fact.RAY, f"version `{found}` cannot be read")
    if numbers < MIN_RAY:
        return bad(Fact.RAY, f"{found} cannot keep a group in one domain: 2.60 or later is needed")
    return good(Fact.RAY, found)


def release(version: str) -> tuple[int, ...] | None:
    """Return major and minor of a version, `(2, 60)` for `2.60.0rc1`; None for what is none."""
    parts = version.split(".")[:2]
    if len(parts) < 2 or not all(part.isascii() and part.isdecimal() and len(part) < 6 for part in parts):
        return None
    return tuple(map(int, parts))


def disk(facts: Facts, _node: Node) -> Finding:
    """Judge the room for Ray, for logs and for what a run writes."""
    hidden = [space.why for space in facts.spaces if isinstance(space, Unknown)]
    spaces = [space for space in facts.spaces if isinstance(space, Space)]
    wrong = [message for space in spaces for message in _wrong(space)]
    if wrong:
        return bad(Fact.DISK, "; ".join(wrong[:3]), *wrong)
    if hidden or not spaces:
        return cannot_tell(Fact.DISK, "; ".join(hidden) or "no path was asked about", stops=True)
    least = min(spaces, key=lambda space: space.free)
    return good(Fact.DISK, f"{_size(least.free)} free at `{least.path}`")


def _wrong(space: Space) -> Iterable[str]:
    if space.path != "/" and (space.read_only or not space.writable):
        yield f"`{space.path}` is {'read-only' if space.read_only else 'not writable for this user'}"
    full = 1 - space.free / space.bytes if space.bytes > 0 else 0.0
    if full > MAX_FULL or space.free < MIN_FREE:
        yield f"`{space.path}` has {_size(space.free)} free and is {full:.0%} full: Ray stops at {MAX_FULL:.0%}"
    if space.inodes > 0 and space.free_inodes < MIN_FREE_INODES:
        yield f"`{space.path}` has {space.free_inodes} inodes left"


def _size(count: int) -> str:
    return f"{count / GIB:.0f} GiB" if count >= 10 * GIB else f"{count / GIB:.1f} GiB"


def shared_memory(facts: Facts, _node: Node) -> Finding:
    """Judge the room for Ray's object store."""
    found = facts.shared_memory
    if isinstance(found, Unknown):
        return cannot_tell(Fact.SHARED_MEMORY, found.why)
    if found.free < MIN_SHARED_MEMORY or not found.writable:
        message = f"{_size(found.free)} usable in `{found.path}`: Ray puts objects on disk, which is slow"
        return bad(Fact.SHARED_MEMORY, message, stops=False)
    return good(Fact.SHARED_MEMORY, f"{_size(found.free)} free")


def open_files(facts: Facts, _node: Node) -> Finding:
    """Judge how many files Ray may open: up to the hard limit, which a process may raise itself to."""
    if isinstance(facts.open_files, Unknown):
        return cannot_tell(Fact.OPEN_FILES, facts.open_files.why)
    hard = facts.open_files.hard
    if hard == -1 or hard >= MIN_OPEN_FILES:
        return good(Fact.OPEN_FILES, "no limit" if hard == -1 else str(hard))
    message = f"at most {hard}: raise `nofile` in /etc/security/limits.conf to 65535"
    return bad(Fact.OPEN_FILES, message, stops=False)


def own_name(facts: Facts, _node: Node) -> Finding:
    """Judge whether the node knows itself by name: Ray looks that up at each start."""
    found = facts.own_name
    if isinstance(found, Unknown):
        return cannot_tell(Fact.OWN_NAME, found.why)
    known = "" if isinstance(facts.host, Unknown) else facts.host.hostname
    name = found.name or known
    if found.addresses and found.seconds <= MAX_RESOLVE:
        return good(Fact.OWN_NAME, f"`{name}` is {found.addresses[0]}")
    how = f"resolves in {found.seconds:.0f} s" if found.addresses else f"does not resolve ({found.seconds:.0f} s)"
    message = f"`{name}` {how}, which each start of Ray waits for: put it into /etc/hosts"
    return bad(Fact.OWN_NAME, message, stops=False)


def logout(facts: Facts, _node: Node) -> Finding:
    """Judge whether a run outlives our last session."""
    found = facts.logout
    if isinstance(found, Unknown):
        return cannot_tell(Fact.LOGOUT, found.why)
    ends = [
        message
        for holds, message in (
            (found.kill_processes, "`KillUserProcesses` ends its processes"),
            (found.remove_ipc, "`RemoveIPC` removes its shared memory"),
        )
        if holds
    ]
    system_user = not isinstance(facts.host, Unknown) and facts.host.uid < FIRST_USER
    if not ends or found.linger or system_user:
        return good(Fact.LOGOUT, "a run outlives our sessions")
    user = "USER" if isinstance(facts.host, Unknown) else facts.host.user
    message = f"a run dies with our last session, where {' and '.join(ends)}: `sudo loginctl enable-linger {user}`"
    return bad(Fact.LOGOUT, message, stops=False)


def sudo(facts: Facts, _node: Node) -> Finding:
    """Tell whether IMEX can be set up without an operator; either is fine."""
    if isinstance(facts.sudo, Unknown):
        return cannot_tell(Fact.SUDO, facts.sudo.why)
    return good(Fact.SUDO, "without a password" if facts.sudo else "not without a password: what needs root is printed")


def infiniband(facts: Facts, _node: Node) -> Finding:
    """Judge the ports that lead out of the rack. Some are unused by design, so that none stops a start."""
    if isinstance(facts.infiniband, Unknown):
        return cannot_tell(Fact.INFINIBAND, facts.infiniband.why)
    if not facts.infiniband:
        return not_applicable(Fact.INFINIBAND, "no such devices")
    down = [port for port in facts.infiniband if not port.active]
    active = len(facts.infiniband) - len(down)
    message = f"{active} of {len(facts.infiniband)} ports active"
    if down:
        shown = tuple(f"{port.device} port {port.port}: {port.state}" for port in down)
        return bad(
            Fact.INFINIBAND, f"{message}; not: {', '.join(port.device for port in down[:8])}", *shown, stops=False
        )
    return good(Fact.INFINIBAND, f"{message}, {facts.infiniband[0].rate}")
