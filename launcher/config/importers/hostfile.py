"""Hostfiles of MPI, DeepSpeed and Horovod: one host and its slots a line."""

import ipaddress
import re

from launcher.config.importers.collector import HostCollector, number, short
from launcher.config.importers.imported import ImportedHost
from launcher.config.importers.text_lines import Line, lines

MAX_GPUS = 16
"""The most slots that count as GPUs; more are cores."""

MAX_SLOTS = 256
"""The largest N of `host:N` that counts as slots; a larger number may be a port."""

_PAIR = re.compile(r"(?<!\S)([A-Za-z][A-Za-z_-]*)\s*=\s*(\S+)")
_SLOTS = ("slots", "cpu", "cpus", "ngpu", "gpus")
_UNUSED = ("max_slots", "max-slots", "ifhn", "map")
_HOST = re.compile(
    r"(?:(?P<user>[^@\s]+)@)?(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<host>\S+?))(?::(?P<number>[0-9]{1,9}))?"
)
KEY_LINE = re.compile(
    r"(?:(?:@\S+\s+)?\S+\s+)?(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\S+|sk-(?:ssh|ecdsa)\S+)\s+[A-Za-z0-9+/]{8,}"
)
"""A line of a known_hosts or an authorized_keys file."""

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def read(text: str, collector: HostCollector) -> None:
    """Add the hosts to a collector.

    Up to 16 slots count as GPUs; 0 slots mean that the host is drained.
    """
    said: dict[str, int] = {}
    for line in lines(text):
        if line.text:
            _line(line, collector, said)
    if "slots" in said:
        hint = "compare with the nodes: `nvlaunch inventory check`"
        collector.warn(said["slots"], "slots are imported as the number of GPUs", hint)
    if "cores" in said:
        what = f"more than {MAX_GPUS} slots are cores: the number of GPUs stays unknown"
        collector.warn(said["cores"], what)
    if "colon" in said:
        hint = "for a port, write `host:PORT slots=N`"
        collector.warn(said["colon"], "`host:N` is imported as N slots, not as a port", hint)
    if "hosts" in said:
        what = "lines are read as those of /etc/hosts, an address and names; the first name is imported"
        collector.warn(said["hosts"], what)


def _line(line: Line, collector: HostCollector, said: dict[str, int]) -> None:
    if KEY_LINE.match(line.text):
        collector.mistake(line.number, f"`{short(line.text)}` is an SSH key, not a host", "begin each line with a host")
        return
    pairs = {key.lower(): value for key, value in _PAIR.findall(line.text)}
    words = _PAIR.sub(" ", line.text).split()
    if not words:
        collector.mistake(line.number, f"`{short(line.text)}` names no host", "begin each line with a host")
        return
    first, *more = words
    if more and not pairs and _address(first):
        said.setdefault("hosts", line.number)
        _etc_hosts(line, first, more, collector)
        return
    slots = next((pairs.pop(key) for key in _SLOTS if key in pairs), None)
    for key in pairs.keys() - set(_UNUSED):
        collector.warn(line.number, f"unknown key `{short(key)}` ignored")
    if more and slots is None and number(more[0], 0, 10**6) is not None:
        slots, more = more[0], more[1:]
    if more:
        what = f"unexpected `{short(' '.join(more))}` after the host"
        collector.mistake(line.number, what, "write a line as `host slots=4`")
        return
    _host(line.number, first, slots, collector, said)


def _host(line: int, word: str, slots: str | None, collector: HostCollector, said: dict[str, int]) -> None:
    six = _address(word) and ":" in word
    found = None if six else _HOST.fullmatch(word)
    user, name = (found["user"], found["six"] or found["host"]) if found else (None, word)
    port: int | None = None
    if found and found["number"] and slots is None and int(found["number"]) > MAX_SLOTS:
        hint = "write `host:PORT slots=N`, or `host slots=N`"
        collector.mistake(line, f"the number in `{short(word)}` may be slots or a port", hint)
        return
    if found and found["number"]:
        if slots is None:
            slots = found["number"]
            said.setdefault("colon", line)
        else:
            port = int(found["number"])
    gpus = _gpus(line, name, slots, collector, said)
    drained = "0 slots in the hostfile" if gpus == 0 else None
    for one in collector.expand(name, line) if "[" in name else (name,):
        if one.lower() in _LOOPBACK:
            collector.warn(line, f"`{one}` is the machine that runs nvlaunch")
        collector.add(ImportedHost(name=one, line=line, user=user, port=port, gpus=gpus or None, drained=drained))


def _gpus(line: int, name: str, slots: str | None, collector: HostCollector, said: dict[str, int]) -> int | None:
    if slots is None:
        return None
    count = number(slots, 0, 10**6)
    if count is None:
        collector.mistake(line, f"`{short(slots)}` of `{short(name)}` is not a number of slots")
        return None
    if count == 0:
        collector.warn(line, f"`{short(name)}` has 0 slots: imported as drained")
        return 0
    said.setdefault("slots" if count <= MAX_GPUS else "cores", line)
    return count if count <= MAX_GPUS else None


def _etc_hosts(line: Line, address: str, names: list[str], collector: HostCollector) -> None:
    ip = _address(address)
    if ip is not None and (ip.is_loopback or ip.is_multicast or ip.is_link_local):
        collector.warn(line.number, f"`{short(line.text)}` skipped: its address is not that of a node")
        return
    collector.add(ImportedHost(name=names[0], line=line.number, address=address))


def _address(word: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(word)
    except ValueError:
        return None
