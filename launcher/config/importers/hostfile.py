"""Hostfiles of MPI, DeepSpeed and Horovod: a host a line, with how many processes it takes."""

import ipaddress
import re

from launcher.config.importers.found import Host
from launcher.config.importers.roster import Roster, number, short
from launcher.config.importers.text import Line, lines

MAX_GPUS = 16
"""The most slots that are taken for GPUs; more of them are cores."""

MAX_SLOTS = 256
"""The most that `host:N` is taken for slots; a larger number may be a port."""

_PAIR = re.compile(r"(?<!\S)([A-Za-z][A-Za-z_-]*)\s*=\s*(\S+)")
_SLOTS = ("slots", "cpu", "cpus", "ngpu", "gpus")
_MUTE = ("max_slots", "max-slots", "ifhn", "map")
_HOST = re.compile(
    r"(?:(?P<user>[^@\s]+)@)?(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<host>\S+?))(?::(?P<number>[0-9]{1,9}))?"
)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def read(text: str, roster: Roster) -> None:
    """Add the hosts to a roster. Slots up to 16 are taken for GPUs, none of them for "do not use"."""
    said: dict[str, int] = {}
    for line in lines(text):
        if line.text:
            _line(line, roster, said)
    if "slots" in said:
        hint = "`nvlaunch inventory check` compares it with the nodes"
        roster.remark(said["slots"], "slots are taken for the number of GPUs", hint)
    if "cores" in said:
        what = f"more than {MAX_GPUS} slots are taken for cores: they say nothing of GPUs"
        roster.remark(said["cores"], what)
    if "colon" in said:
        hint = "write `host:PORT slots=N` for a port"
        roster.remark(said["colon"], "`host:N` is taken for N slots, not for a port", hint)
    if "hosts" in said:
        roster.remark(said["hosts"], "these lines are those of /etc/hosts: an address, then names; the first is taken")


def _line(line: Line, roster: Roster, said: dict[str, int]) -> None:
    pairs = {key.lower(): value for key, value in _PAIR.findall(line.text)}
    words = _PAIR.sub(" ", line.text).split()
    if not words:
        roster.wrong(line.number, f"`{short(line.text)}` names no host", "a line begins with a host")
        return
    first, *more = words
    if more and not pairs and _address(first):
        said.setdefault("hosts", line.number)
        _etc_hosts(line, first, more, roster)
        return
    slots = next((pairs.pop(key) for key in _SLOTS if key in pairs), None)
    for key in pairs.keys() - set(_MUTE):
        roster.remark(line.number, f"`{short(key)}` is not known here, and is left out")
    if more and slots is None and number(more[0], 0, 10**6) is not None:
        slots, more = more[0], more[1:]
    if more:
        roster.wrong(
            line.number, f"`{short(' '.join(more))}` after the host is not understood", "a line reads `host slots=4`"
        )
        return
    _host(line.number, first, slots, roster, said)


def _host(line: int, word: str, slots: str | None, roster: Roster, said: dict[str, int]) -> None:
    six = _address(word) and ":" in word
    found = None if six else _HOST.fullmatch(word)
    user, name = (found["user"], found["six"] or found["host"]) if found else (None, word)
    port: int | None = None
    if found and found["number"] and slots is None and int(found["number"]) > MAX_SLOTS:
        hint = "write `host:PORT slots=N`, or `host slots=N`"
        roster.wrong(line, f"`{short(word)}` may mean slots or a port", hint)
        return
    if found and found["number"]:
        if slots is None:
            slots = found["number"]
            said.setdefault("colon", line)
        else:
            port = int(found["number"])
    gpus = _gpus(line, name, slots, roster, said)
    drained = "0 slots in the hostfile" if gpus == 0 else None
    for one in roster.expand(name, line) if "[" in name else (name,):
        if one.lower() in _LOOPBACK:
            roster.remark(line, f"`{one}` is whichever machine reads it")
        roster.add(Host(name=one, line=line, user=user, port=port, gpus=gpus or None, drained=drained))


def _gpus(line: int, name: str, slots: str | None, roster: Roster, said: dict[str, int]) -> int | None:
    if slots is None:
        return None
    count = number(slots, 0, 10**6)
    if count is None:
        roster.wrong(line, f"`{short(slots)}` of `{short(name)}` is not a number of slots")
        return None
    if count == 0:
        roster.remark(line, f"`{short(name)}` has no slots: it is marked as drained")
        return 0
    said.setdefault("slots" if count <= MAX_GPUS else "cores", line)
    return count if count <= MAX_GPUS else None


def _etc_hosts(line: Line, address: str, names: list[str], roster: Roster) -> None:
    ip = _address(address)
    if ip is not None and (ip.is_loopback or ip.is_multicast or ip.is_link_local):
        roster.remark(line.number, f"`{short(line.text)}` is no machine that can be reached: it is left out")
        return
    roster.add(Host(name=names[0], line=line.number, address=address))


def _address(word: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(word)
    except ValueError:
        return None
