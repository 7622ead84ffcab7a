"""Collect the machines of an imported file.

Names and addresses must be valid in our own inventory.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from launcher.config.importers.imported import ImportedHost
from launcher.config.inventory.racks import SSH_PORT
from launcher.config.schema.patterns import HOST, JUMP, LABEL, LABEL_HINT, USER
from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.nodes import Mark
from launcher.config.yaml.text_file import refuse
from launcher.core.model.address import canonical, is_loopback, read_ip
from launcher.core.model.nodeset import MAX_NAMES, expand

MAX_WARNINGS = 1000
"""The most warnings of one file."""

MAX_MISTAKES = 200
"""The most mistakes of one file; a file with more is of another format."""

_PATH = r"[^-\s\x00-\x1f][^\x00-\x1f]*"
_RULES = (
    ("user", "user name", USER),
    ("identity_file", "path", _PATH),
    ("rack", "rack name", LABEL),
    ("proxy_jump", "jump host", rf"{JUMP}(,{JUMP})*"),
    ("domain", "NVLink domain", LABEL),
    ("accelerator", "kind of GPU", LABEL),
)
NO_PLACE = ("none", "unknown", "undefined", "null", "n/a", "na", "-", "no-topology", "no_topology")
"""Words that programs write where they do not know the rack or switch; NVIDIA's topograph writes `no-topology`."""

_TEMPLATE = re.compile(r"\{\{|\{%|\$\{|<%")


def short(text: str) -> str:
    """Return the beginning of a text, on one line of at most 60 characters."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


class HostCollector:
    """Collects hosts without duplicates.

    Mistakes and warnings are reported to `out` with their lines. `levels` are the levels above the racks, which a
    format sets itself, from coarse to fine.
    """

    def __init__(self, out: Diagnostics) -> None:
        self.out = out
        self.levels: tuple[str, ...] = ()
        self._hosts: dict[_Key, ImportedHost] = {}
        self._names: dict[str, ImportedHost] = {}
        self._placeless: set[str] = set()
        self._expanded = self._warnings = self._mistakes = 0

    @property
    def hosts(self) -> tuple[ImportedHost, ...]:
        """Return the machines so far, in file order."""
        return tuple(self._hosts.values())

    def warn(self, line: int, what: str, hint: str | None = None) -> None:
        """Add a warning about text that is skipped or is interpreted."""
        self._warnings += 1
        if self._warnings <= MAX_WARNINGS:
            self.out.warn(Mark(line, 1 if line else 0), what, hint)

    def mistake(self, line: int, what: str, hint: str | None = None) -> None:
        """Add a mistake, which prevents the import.

        SpecError with all mistakes so far if there are too many.
        """
        self.out.mistake(Mark(line, 1 if line else 0), what, hint)
        self._mistakes += 1
        if self._mistakes == MAX_MISTAKES:
            self.out.finish()

    def expand(self, text: str, line: int) -> tuple[str, ...]:
        """Return the names of a range.

        SpecError if the ranges of the file expand to more than MAX_NAMES names.
        """
        try:
            names = expand(text)
        except ValueError as error:
            self.mistake(line, str(error), "write a range as `n[01-18]`")
            return ()
        self.count_names(len(names), line)
        return names

    def count_names(self, names: int, line: int) -> None:
        """Count names that ranges were expanded to; SpecError above MAX_NAMES."""
        self._expanded += names
        if self._expanded > MAX_NAMES:
            what = f"the ranges of the file expand to more than {MAX_NAMES} names"
            raise refuse(self.out.where, what, mark=Mark(line, 1))

    def add(self, host: ImportedHost) -> None:
        """Add a machine; mistakes and duplicates are reported."""
        if len(self._hosts) >= MAX_NAMES:
            raise refuse(self.out.where, f"the file lists more than {MAX_NAMES} machines", mark=Mark(host.line, 1))
        # A dot at the end is DNS's way to write a whole name.
        host = replace(host, name=host.name.rstrip("."), address=host.address.rstrip(".") if host.address else None)
        host = self._named(self._checked(self._placed(host)))
        if not host.name:
            return
        known = self._hosts.get(_key(host))
        first = self._names.get(host.name.casefold())
        if known is not None:
            self._again(known, host)
        elif first is None:
            self._hosts[_key(host)] = self._names[host.name.casefold()] = host
        elif host.address is first.address is None and _key(host)[0] == _key(first)[0]:
            self._by_port(first, host)
        else:
            differs = "has another address" if first.name == host.name else f"differs only in case from `{first.name}`"
            self.mistake(host.line, f"`{host.name}` {differs} on line {first.line}", "give each machine its own name")

    def finish(self) -> None:
        """Report machines that no other machine can reach; SpecError with all mistakes."""
        for host in self.hosts if len(self._hosts) > 1 else ():
            if is_loopback(host.address or host.name):
                what = f"`{host.address or host.name}` is this machine, which the others cannot reach by that address"
                self.mistake(host.line, what, "write an address that other nodes can reach, or leave it out")
        self.out.finish()

    def _by_port(self, first: ImportedHost, host: ImportedHost) -> None:
        """Name machines behind one address by their ports; the first keeps its place in the file's order."""
        for one in (first, host):
            name = f"{one.name}-{one.port or SSH_PORT}"
            if name.casefold() not in self._names:
                made = replace(one, name=name, address=one.name)
                self._hosts[_key(made)] = self._names[name.casefold()] = made
        # The name stays taken, for the next machine behind it.
        now = f"{first.name}-{host.port or SSH_PORT}"
        self.warn(host.line, f"machines behind `{first.name}` are named by their ports, as `{now}`")

    def _again(self, known: ImportedHost, host: ImportedHost) -> None:
        """Report a machine that is listed twice; ssh(1) and DNS ignore case."""
        if known.rack != host.rack and known.rack is not None and host.rack is not None:
            what = f"`{host.name}` is in rack `{known.rack}` on line {known.line}, and in rack `{host.rack}` here"
            self.mistake(host.line, what, "list each node in one rack")
        elif known.name != host.name:
            what = f"`{host.name}` and `{known.name}` of line {known.line} are the same machine: imported once"
            self.warn(host.line, what)
        elif known.line != host.line:
            self.warn(host.line, f"`{host.name}` is also on line {known.line}: imported once")

    def _placed(self, host: ImportedHost) -> ImportedHost:
        """Return the host without names of racks and levels that mean that there is none."""
        known = {level: place for level, place in host.places.items() if place.casefold() not in NO_PLACE}
        rack = host.rack if host.rack and host.rack.casefold() not in NO_PLACE else None
        for word in dict.fromkeys([*([host.rack] if host.rack and rack is None else []), *host.places.values()]):
            if word.casefold() in NO_PLACE and word not in self._placeless:
                self._placeless.add(word)
                self.warn(host.line, f"`{word}` is not taken for a place: the rack or level of these nodes is unknown")
        return replace(host, rack=rack, places=known)

    def _checked(self, host: ImportedHost) -> ImportedHost:
        """Return the host, without its name if that or its address is not valid.

        Mistakes are reported.
        """
        where = host.address or host.name
        for word in (where, host.name):
            if not re.fullmatch(HOST, word) or (":" in word and read_ip(word) is None):
                hint = _template_hint(word) or "do not begin with `-`; use no spaces, commas or brackets"
                self.mistake(host.line, f"`{short(word)}` is not a host name or an address", hint)
                return replace(host, name="")
        if (ip := read_ip(where)) and ip.is_link_local:
            self.mistake(host.line, f"`{short(where)}` holds on one link only, and Ray cannot use it")
        for key, what, pattern in _RULES:
            value = getattr(host, key)
            if value is not None and not re.fullmatch(pattern, value):
                message = f"`{short(value)}` of `{host.name}` is not a valid {what}"
                self.mistake(host.line, message, _template_hint(value))
        if host.port is not None and not 0 < host.port < 65536:
            self.mistake(host.line, f"`{host.port}` of `{host.name}` is not a valid port")
        for level, place in host.places.items():
            if not re.fullmatch(LABEL, place):
                self.mistake(host.line, f"`{short(place)}` is not a valid name of a {level}", LABEL_HINT)
        return host

    def _named(self, host: ImportedHost) -> ImportedHost:
        """Return the host under a name that Ray accepts.

        Its address stays the original name.
        """
        if not host.name or re.fullmatch(LABEL, host.name):
            return host
        address = host.address or host.name
        first = host.name.partition(".")[0]
        for name in (first, re.sub(r"[^A-Za-z0-9_.-]", "-", host.name).strip("-._")):
            if re.fullmatch(LABEL, name) and self._names.get(name.casefold(), host).address in (None, address):
                return replace(host, name=name, address=address)
        self.mistake(host.line, f"`{short(host.name)}` cannot be turned into a valid node name", LABEL_HINT)
        return replace(host, name="")


_Key = tuple[str, int, str | None]
"""What tells machines apart: address, port and jump host."""


def _key(host: ImportedHost) -> _Key:
    return canonical(host.address or host.name), host.port or SSH_PORT, host.proxy_jump


def _template_hint(text: str) -> str | None:
    return "render the template first" if _TEMPLATE.search(text) else None


def number(text: str | None, low: int, high: int) -> int | None:
    """Return a text as a whole number within bounds; None if it is none."""
    found = re.fullmatch(r"[0-9]{1,9}", text or "")
    return int(found[0]) if found and low <= int(found[0]) <= high else None


def common_places(hosts: "list[ImportedHost]") -> Mapping[str, str]:
    """Return the places that all hosts have in common."""
    first, *rest = hosts
    return {
        level: place for level, place in first.places.items() if all(one.places.get(level) == place for one in rest)
    }
