"""IMEX, which shares GPU memory between trays: daemon, domain, files.

`nvidia-imex-ctl -q` prints the state of the local daemon only; READY does not include the domain. `-N` asks the other
nodes on a separate port, and prints UNAVAILABLE if that port is closed, whatever the state of the links. So only the
row of the node itself counts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, unique

from launcher.probe.nvidia.smi_tree import fold
from launcher.probe.results import ProbeResult, Unknown, decode, failure_of, first_words, string

STATE_COMMAND = ("nvidia-imex-ctl", "-q")

DOMAIN_COMMAND = ("sh", "-c", "nvidia-imex-ctl -N -j 2>/dev/null || exec nvidia-imex-ctl -N")

TIMEOUT = 10.0
"""Seconds; `-N` sometimes hangs."""

FOLDER = "/etc/nvidia-imex"
CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"
MAX_PEERS = 1024


@unique
class DomainState(Enum):
    """The state of a whole domain."""

    UP = "UP"
    DEGRADED = "DEGRADED"
    DOWN = "DOWN"
    OTHER = "other"


@unique
class PeerLink(Enum):
    """The state of the link between two daemons, by the letters of `-N`.

    VERSION and MAP never recover on their own.
    """

    CONNECTED = "C"
    INVALID = "I"
    NEVER = "N"
    RECOVERING = "R"
    DISCONNECTED = "D"
    AUTHENTICATING = "A"
    VERSION = "!V!"
    MAP = "!M!"
    OTHER = "?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One node of the node list as a daemon sees it.

    `names` are its address, and its host name if it is known.
    """

    index: int
    names: tuple[str, ...]
    ready: bool
    state: str
    version: str | None = None
    links: Mapping[int, PeerLink] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImexDomain:
    """The domain as `nvidia-imex-ctl -N` prints it."""

    state: DomainState
    peers: tuple[Peer, ...]

    def own(self, names: frozenset[str]) -> Peer | None:
        """Return the node that has one of these addresses or names.

        None if there is none.
        """
        return next((peer for peer in self.peers if names & set(peer.names)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImexFiles:
    """The configuration on disk and the channel device.

    Hashes are SHA-256, None if the file is missing. `nodes` are the lines of the node list. The daemon reads it at
    start, and it must be identical on all nodes. `settings` are those of `config.cfg`.
    """

    nodes: tuple[str, ...] | None
    settings: Mapping[str, str] = field(default_factory=dict)
    nodes_hash: str | None
    config_hash: str | None
    channel: bool
    usable: bool


def read_ready(result: ProbeResult | None) -> bool | Unknown:
    """Whether the local daemon is READY."""
    why = failure_of(result, "`nvidia-imex-ctl -q`")
    if result is None or why:
        return why or Unknown(why="no result of `nvidia-imex-ctl -q`")
    message = first_words(result.out)
    if message == "READY":
        return True
    if re.fullmatch(r"[A-Z_]{2,40}", message):
        return False
    return Unknown(why=f"`nvidia-imex-ctl -q` printed: {message}")


def read_domain(result: ProbeResult | None) -> ImexDomain | Unknown:
    """Return the domain in the text or the JSON of `nvidia-imex-ctl -N`."""
    why = failure_of(result, "`nvidia-imex-ctl -N`")
    if result is None or why:
        return why or Unknown(why="no result of `nvidia-imex-ctl -N`")
    found = _from_json(result.out) if result.out.lstrip().startswith("{") else _from_text(result.out)
    return found or Unknown(why=f"the output of `nvidia-imex-ctl -N` cannot be parsed: {first_words(result.out)}")


def _state(text: str) -> DomainState:
    return next((state for state in DomainState if state.value == text), DomainState.OTHER)


_NODE = re.compile(r"Node #([0-9]{1,5})\s*-\s*(\S{1,256})\s*-\s*([A-Z_]{1,40})\s*(?:-\s*(?:Version: (\S{1,64}))?)?\s*")
_MARKS = {link.value: link for link in PeerLink}
_DOMAIN = re.compile(r"Domain State: (\w{1,40})")


def _from_text(text: str) -> ImexDomain | None:
    rows = dict(_rows(text))
    found = [match for line in text.splitlines() if (match := _NODE.fullmatch(line[:1024].strip()))][:MAX_PEERS]
    state = _DOMAIN.search(text)
    if state is None and not found:
        return None
    peers = tuple(
        Peer(
            index=int(one[1]),
            names=(one[2],),
            ready=one[3] == "READY",
            state=one[3],
            version=one[4],
            links=rows.get(int(one[1]), {}),
        )
        for one in found
    )
    return ImexDomain(state=_state(state[1] if state else ""), peers=peers)


def _rows(text: str) -> Iterator[tuple[int, Mapping[int, PeerLink]]]:
    """Yield the rows of the matrix of links: a number, then a mark for each node.

    Its heading has only numbers.
    """
    for line in text.splitlines()[: 4 * MAX_PEERS]:
        number, *marks = line.split()[: MAX_PEERS + 1] or [""]
        index = _index(number)
        if index is not None and marks and all(len(mark) <= 3 and not mark.isdecimal() for mark in marks):
            yield index, dict(enumerate(_MARKS.get(mark, PeerLink.OTHER) for mark in marks))


_WORDS = {"neverconnected": PeerLink.NEVER, "versionmismatch": PeerLink.VERSION, "nodemapmismatch": PeerLink.MAP}


def _link_word(word: str) -> PeerLink:
    known = {fold(link.name): link for link in PeerLink} | _WORDS
    return known.get(fold(word), PeerLink.OTHER)


def _from_json(text: str) -> ImexDomain | None:
    found = decode(text)
    nodes = found.get("nodes") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(nodes, dict):
        return None
    items = [(key, item) for key, item in nodes.items() if _index(key) is not None and isinstance(item, dict)]
    peers = tuple(_peer(int(key), item) for key, item in items[:MAX_PEERS])
    return ImexDomain(state=_state(string(found, "status")), peers=peers)


def _peer(index: int, item: Mapping[str, object]) -> Peer:
    names = tuple(name for name in (string(item, "host"), string(item, "hostName")) if name not in ("", "N/A"))
    connections = item.get("connections")
    listed = list(connections.items())[:MAX_PEERS] if isinstance(connections, dict) else []
    links = {
        int(key): _link_word(string(value, "status"))
        for key, value in listed
        if _index(key) is not None and isinstance(value, dict)
    }
    state = string(item, "status")[:40]
    version = string(item, "version") or None
    return Peer(index=index, names=names, ready=state == "READY", state=state, version=version, links=links)


def _index(key: object) -> int | None:
    return int(key) if isinstance(key, str) and re.fullmatch(r"[0-9]{1,5}", key) else None


def read_files(result: ProbeResult | None) -> ImexFiles | Unknown:
    """Return the configuration of IMEX."""
    why = failure_of(result, "the configuration of IMEX")
    found = decode(result.out) if result and not why else None
    if not isinstance(found, dict):
        return why or Unknown(why="the configuration of IMEX cannot be parsed")
    nodes, config = found.get("nodes"), found.get("config")
    return ImexFiles(
        nodes=tuple(str(line)[:256] for line in nodes[:MAX_PEERS]) if isinstance(nodes, list) else None,
        settings=_settings(config if isinstance(config, list) else ()),
        nodes_hash=string(found, "nodes_hash") or None,
        config_hash=string(found, "config_hash") or None,
        channel=found.get("channel") is True,
        usable=found.get("channel_usable") is True,
    )


def _settings(lines: Sequence[object]) -> Mapping[str, str]:
    """Return the `KEY=value` lines; the last one of a key counts, as for the daemon."""
    pairs = (str(line).partition("=") for line in lines[:MAX_PEERS] if not str(line).lstrip().startswith("#"))
    return {key.strip()[:64]: value.strip()[:256] for key, equals, value in pairs if equals}
