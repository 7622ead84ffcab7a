"""What a run does about IMEX on one node: facts to a decision.

IMEX lends GPU memory from tray to tray. A domain has one node list, the same bytes on every tray, read when the daemon
starts. Ours names every node of the NVLink domain, spares and nodes of others too, so that replacing a node changes
nothing. A running daemon is never restarted under a program that uses the node's GPUs: that ends all that it has
borrowed and lent. Nodes of other runs, whose leases the run does not have, are never touched.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, unique

from launcher.core.model.inventory import ImexMode

FOLDER = "/etc/nvidia-imex"
NODES = f"{FOLDER}/nodes_config.cfg"
CONFIG = f"{FOLDER}/config.cfg"
CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"
UNIT = "nvidia-imex"

PORTS = {"SERVER_PORT": "50000", "IMEX_CMD_PORT": "50005"}
"""Data, and the question how others are; where the second is closed, `-N` calls peers UNAVAILABLE that are not."""

FORCED = {"IMEX_CMD_ENABLED": "1", "IMEX_NODE_CONFIG_FILE": NODES}

QUORUM = {"IMEX_WAIT_FOR_QUORUM": "RECOVERY"}
"""After a crash, wait for those that still hold our memory; any other start waits for nobody."""

GRACE = {"IMEX_NODE_DISCONNECTED_GRACE_TIME": "60"}
"""Seconds until memory of a node that is gone is given up. The default, -1, keeps it for ever: a tray that was
switched off would then never become READY again while another one of its borrowers is dead."""

FOR_EVER = "-1"
START_S = 60
READY_TRIES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ImexDaemon:
    """IMEX on a node as it was observed.

    None, everywhere, is unknown; `why` gives the reason. `peers` are the lines of the map that the daemon was started
    with, each with all names it has there, in order; `cut` are those of them that it will never speak to as things are,
    with the reason. `listed` and `settings` are the files on disk. `channel`: whether the user may use the channel
    device, `no_channel`: that there is none. `used_by` are programs that use the node's GPUs.
    """

    installed: bool = True
    active: bool | None = None
    ready: bool | None = None
    peers: tuple[tuple[str, ...], ...] | None = None
    cut: Mapping[int, str] = field(default_factory=dict)
    listed: tuple[str, ...] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    channel: bool | None = None
    no_channel: bool = False
    sudo: bool | None = None
    used_by: tuple[str, ...] | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImexPeers:
    """A node and those that it must share memory with, by their names in lists.

    `own` is the node itself; `slice` the nodes of its slice and `spares` those kept for it; `domain` the addresses of
    all nodes of the NVLink domain, in tray order.
    """

    own: frozenset[str]
    slice: tuple[frozenset[str], ...]
    spares: tuple[frozenset[str], ...] = ()
    domain: tuple[str, ...] = ()


@unique
class ImexAction(Enum):
    """What is done. LEFT: nothing, for the reason given."""

    OFF = "off"
    ADOPTED = "adopted"
    START = "started"
    RESTART = "restarted"
    CHANNEL = "channel created"
    LEFT = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImexDecision:
    """What is done about IMEX on a node, and why.

    `steps` are shell commands for root, in order. `warning` is for a person; the launch goes on.
    """

    kind: ImexAction
    reason: str
    steps: tuple[str, ...] = ()
    warning: str = ""


def decide(mode: ImexMode, place: ImexPeers, seen: ImexDaemon) -> ImexDecision:
    """Return what is done about IMEX on a node."""
    if mode is ImexMode.OFF:
        return ImexDecision(kind=ImexAction.OFF, reason="the inventory says `imex: off`")
    if len(place.slice) < 2:
        return ImexDecision(kind=ImexAction.OFF, reason="a slice of one node does not need it")
    if not seen.installed:
        message = "IMEX is not installed: GPU memory cannot be shared beyond the tray"
        return ImexDecision(
            kind=ImexAction.LEFT, reason=message, warning=f"{message}; install the package `nvidia-imex`"
        )
    if seen.active is None:
        return _left(f"cannot tell whether IMEX runs: {seen.why}")
    return _running(mode, place, seen) if seen.active else _stopped(mode, place, seen)


def _running(mode: ImexMode, place: ImexPeers, seen: ImexDaemon) -> ImexDecision:
    lines = seen.peers if seen.peers is not None else _single(seen.listed)
    if lines is None:
        return _left(f"IMEX runs, but its node list cannot be seen: {seen.why}")
    if missing := _missing(place.slice, lines):
        return _with_another_list(mode, place, seen, missing)
    if cut := [f"{_shown(lines[at])}: {why}" for at, why in seen.cut.items() if _concerns(place, lines, at)]:
        return _left(f"the running IMEX domain excludes nodes of the slice ({'; '.join(cut)})")
    if seen.ready is False:
        return _left(_NOT_READY)
    source = "" if seen.peers is not None else f", by its file: {seen.why}"
    reason = f"the running domain of {len(lines)} has all {len(place.slice)} nodes of the slice{source}"
    if seen.no_channel:
        return _without_channel(mode, seen, reason)
    warning = ""
    if seen.channel is False:
        warning = f"this user may not open `{CHANNEL}`: ranks cannot use GPU memory of other trays"
    elif _missing((*place.slice, *place.spares), lines):
        warning = "the IMEX node list lacks spares of the slice: change it before a node is replaced with one of them"
    return ImexDecision(kind=ImexAction.ADOPTED, reason=reason, warning=warning)


def _without_channel(mode: ImexMode, seen: ImexDaemon, reason: str) -> ImexDecision:
    """Return the decision for a daemon without a channel device.

    Drivers make none at boot where they are not configured to.
    """
    if mode is ImexMode.MANAGE and seen.sudo:
        return ImexDecision(
            kind=ImexAction.CHANNEL, reason=f"{reason}, but the channel was missing", steps=_channel(seen)
        )
    warning = f"`{CHANNEL}` is missing; run on the node:\n  {operator(_channel(seen))}"
    return ImexDecision(kind=ImexAction.ADOPTED, reason=reason, steps=_channel(seen), warning=warning)


_NOT_READY = (
    "IMEX runs, but is not READY (`nvidia-imex-ctl -q`): after a crash it waits for all nodes that had "
    "borrowed its memory (IMEX_WAIT_FOR_QUORUM)"
)


def _with_another_list(mode: ImexMode, place: ImexPeers, seen: ImexDaemon, missing: Sequence[str]) -> ImexDecision:
    message = f"the running IMEX domain does not have {', '.join(missing[:4])}{' ...' if len(missing) > 4 else ''}"
    if obstacle := _obstacle(place):
        return _left(f"{message}, and {obstacle}")
    steps = (*_files(place, seen), *_start("restart"), *_channel(seen))
    if mode is not ImexMode.MANAGE:
        return _left(message, steps)
    if seen.used_by is None:
        return _left(f"{message}; not restarted: cannot tell whether programs use the GPUs", steps)
    if seen.used_by:
        users = ", ".join(seen.used_by[:4])
        return _left(f"{message}; not restarted: {users} would lose borrowed memory", steps)
    if not seen.sudo:
        return _left(f"{message}, and `sudo -n` is refused", steps)
    return ImexDecision(
        kind=ImexAction.RESTART, reason=f"{message}, and no program uses the GPUs of the node", steps=steps
    )


def _stopped(mode: ImexMode, place: ImexPeers, seen: ImexDaemon) -> ImexDecision:
    if obstacle := _obstacle(place):
        return _left(f"IMEX does not run, and {obstacle}")
    steps = (*_files(place, seen), *_start("start"), *_channel(seen))
    if mode is not ImexMode.MANAGE:
        return _left("IMEX does not run, and the inventory does not say `imex: manage`", steps)
    if not seen.sudo:
        return _left("IMEX does not run, and `sudo -n` is refused", steps)
    return ImexDecision(kind=ImexAction.START, reason="it was not running", steps=steps)


def _obstacle(place: ImexPeers) -> str | None:
    """Return why the node list of the domain cannot be written."""
    if len(place.domain) < 2:
        return "the nodes of its NVLink domain are unknown"
    if not place.own & set(place.domain):
        return "the node has none of the addresses that its NVLink domain has in the inventory"
    return None


def _files(place: ImexPeers, seen: ImexDaemon) -> tuple[str, ...]:
    """Return the commands that write the files.

    A site's own list stays where it has the whole slice.
    """
    listed = _single(seen.listed)
    keeps = listed is not None and len(listed) > 1 and not _missing((place.own, *place.slice, *place.spares), listed)
    wanted = {**PORTS, **QUORUM, **GRACE, **{k: v for k, v in seen.settings.items() if v != FOR_EVER}, **FORCED}
    changed = {key: value for key, value in wanted.items() if seen.settings.get(key) != value}
    return (
        f"mkdir -p {FOLDER}",
        *(() if keeps else (_write(NODES, place.domain, ">"),)),
        *(_set(changed) if changed else ()),
    )


def _write(path: str, lines: Sequence[str], how: str) -> str:
    """Return a command that writes lines.

    In double quotes only, so that a person can put it into single ones.
    """
    message = " ".join(f'"{line}"' for line in lines)
    if how == ">>":
        return f'printf "%s\\n" {message} >> {path}'
    return f'printf "%s\\n" {message} > {path}.new && mv {path}.new {path}'


def _set(settings: Mapping[str, str]) -> tuple[str, ...]:
    away = "|".join(settings)
    lines = [f"{key}={value}" for key, value in settings.items()]
    return (f"touch {CONFIG}", f'sed -E -i "/^({away})=/d" {CONFIG}', _write(CONFIG, lines, ">>"))


def _start(verb: str) -> tuple[str, ...]:
    return (f"timeout {START_S} systemctl {verb} {UNIT}",)


_CHANNEL_STEP = (
    f"[ -e {CHANNEL} ] || {{ mkdir -p {CHANNEL.rpartition('/')[0]} && "
    f'mknod -m 666 {CHANNEL} c $(awk "/nvidia-caps-imex-channels/ {{print \\$1}}" /proc/devices) 0; }}'
)


def _channel(seen: ImexDaemon) -> tuple[str, ...]:
    return (_CHANNEL_STEP,) if seen.no_channel else ()


def script(steps: Sequence[str]) -> str:
    """Return the steps as a script for root's shell.

    It ends at the first step that fails.
    """
    return "\n".join(("set -e", *steps, ""))


def operator(steps: Sequence[str]) -> str:
    """Return one line that does the steps, for a person to copy."""
    return f"sudo sh -c {shlex.quote(' && '.join(steps))}"


def _left(why: str, steps: Sequence[str] = ()) -> ImexDecision:
    """Return the decision to do nothing.

    The warning has the commands that an operator would run on each node of the slice.
    """
    todo = f"; run on every node of the slice:\n  {operator(steps)}" if steps else ""
    return ImexDecision(kind=ImexAction.LEFT, reason=why, steps=tuple(steps), warning=f"{why}{todo}")


def _single(lines: Sequence[str] | None) -> tuple[tuple[str, ...], ...] | None:
    """Return the lines of a node list, without comments."""
    if lines is None:
        return None
    return tuple((line.split()[0],) for line in lines if line.split() and not line.lstrip().startswith("#"))


_ADDRESS = re.compile(r"[0-9.]+|[0-9a-fA-F:]*:[0-9a-fA-F:.]*")


def _missing(wanted: Sequence[frozenset[str]], lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of nodes that are in no line.

    A line with a name of the site's own may stand for any node: so many may be missing.
    """
    named = [set(line) for line in lines]
    absent = [names for names in wanted if not any(names & line for line in named)]
    everybody = frozenset(name for names in wanted for name in names)
    strangers = [line for line in named if not line & everybody and not any(map(_ADDRESS.fullmatch, line))]
    return [] if len(absent) <= len(strangers) else [min(names) for names in absent]


def _concerns(place: ImexPeers, lines: Sequence[Sequence[str]], at: int) -> bool:
    names = set(lines[at]) if at < len(lines) else set()
    return any(names & node for node in place.slice)


def _shown(line: Sequence[str]) -> str:
    return line[0] if line else "?"
