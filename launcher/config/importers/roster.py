"""The machines of one foreign file, gathered one by one: names and addresses checked as those of our own inventory."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import replace

from launcher.config.importers.found import Host
from launcher.config.schema.patterns import HOST, JUMP, LABEL, USER
from launcher.config.yaml.nodes import Mark
from launcher.config.yaml.reading import Reading
from launcher.config.yaml.source import refuse
from launcher.core.model.nodeset import MAX_NAMES, expand

MAX_REMARKS = 1000
"""The most that is remarked on in one file; nobody reads on."""

MAX_MISTAKES = 200
"""The most mistakes of one file; it is of another kind then."""

_PATH = r"[^-\s\x00-\x1f][^\x00-\x1f]*"
_TEMPLATE = re.compile(r"\{\{|\{%|\$\{|<%")


def short(text: str) -> str:
    """Return enough of a text from a file to know it again, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


class Roster:
    """Collects hosts, each machine once; what cannot be one of ours is a mistake of the file, with its line."""

    def __init__(self, out: Reading) -> None:
        self.out = out
        self.levels: tuple[str, ...] = ()
        self._hosts: dict[tuple[str, int], Host] = {}
        self._names: dict[str, Host] = {}
        self._expanded = self._remarks = self._mistakes = 0

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Return the machines so far, in the order of the file."""
        return tuple(self._hosts.values())

    def remark(self, line: int, what: str, hint: str | None = None) -> None:
        """Note something that is understood in a way that the reader of the file should know."""
        self._remarks += 1
        if self._remarks <= MAX_REMARKS:
            self.out.warn(Mark(line, 1 if line else 0), what, hint)

    def wrong(self, line: int, what: str, hint: str | None = None) -> None:
        """Note something that keeps the file from being imported; SpecError with all so far where they are too many."""
        self.out.mistake(Mark(line, 1 if line else 0), what, hint)
        self._mistakes += 1
        if self._mistakes == MAX_MISTAKES:
            self.out.finish()

    def expand(self, text: str, line: int) -> tuple[str, ...]:
        """Return the names that a range stands for; SpecError where all of the file are more than any fleet has."""
        try:
            names = expand(text)
        except ValueError as error:
            self.wrong(line, str(error), "a range is written `n[01-18]`")
            return ()
        self.spend(len(names), line)
        return names

    def spend(self, names: int, line: int) -> None:
        """Count names that were made of ranges; SpecError above what any fleet has."""
        self._expanded += names
        if self._expanded > MAX_NAMES:
            raise refuse(self.out.where, f"the file stands for more than {MAX_NAMES} names", mark=Mark(line, 1))

    def add(self, host: Host) -> None:
        """Take in a machine; what is wrong with it, or known of it already, is noted."""
        if len(self._hosts) >= MAX_NAMES:
            raise refuse(self.out.where, f"the file lists more than {MAX_NAMES} machines", mark=Mark(host.line, 1))
        host = self._named(self._checked(host))
        if not host.name:
            return
        key = ((host.address or host.name).casefold(), host.port or 22)
        known = self._hosts.get(key)
        if known is not None:
            self._again(known, host)
        elif host.name in self._names:
            first = self._names[host.name]
            self.wrong(
                host.line, f"`{host.name}` has another address on line {first.line}", "give each a name of its own"
            )
        else:
            self._hosts[key] = self._names[host.name] = host

    def _again(self, known: Host, host: Host) -> None:
        """The same machine once more; ssh(1) and DNS take no notice of upper case."""
        if known.rack != host.rack and known.rack is not None and host.rack is not None:
            what = f"`{host.name}` is in `{known.rack}` on line {known.line}, and in `{host.rack}` here"
            self.wrong(host.line, what, "a node is in one rack, once")
        elif known.name != host.name:
            what = f"`{host.name}` and `{known.name}` of line {known.line} are one machine: it is taken once"
            self.remark(host.line, what)
        elif known.line != host.line:
            self.remark(host.line, f"`{host.name}` stands on line {known.line} as well: it is taken once")

    def _checked(self, host: Host) -> Host:
        """Return a host without what is wrong about it, which is noted."""
        where = host.address or host.name
        for word in (where, host.name):
            if not re.fullmatch(HOST, word) or (":" in word and not is_address(word)):
                hint = _template_hint(word) or "it may not begin with `-`, nor hold spaces, commas or brackets"
                self.wrong(host.line, f"`{short(word)}` is not a host name or an address", hint)
                return replace(host, name="")
        rules = (
            ("user", "the name of a user", USER),
            ("identity_file", "a path", _PATH),
            ("rack", "a rack's name", LABEL),
        )
        more = (("proxy_jump", "a jump host", rf"{JUMP}(,{JUMP})*"), ("domain", "an NVLink domain", LABEL))
        for key, what, pattern in (*rules, *more, ("accelerator", "a kind of GPU", LABEL)):
            value = getattr(host, key)
            if value is not None and not re.fullmatch(pattern, value):
                self.wrong(host.line, f"`{short(value)}` of `{host.name}` cannot be {what}", _template_hint(value))
        if host.port is not None and not 0 < host.port < 65536:
            self.wrong(host.line, f"`{host.port}` of `{host.name}` cannot be a port")
        for level, place in host.places.items():
            if not re.fullmatch(LABEL, place):
                self.wrong(host.line, f"`{short(place)}` cannot be the name of a {level}", _LABEL_HINT)
        return host

    def _named(self, host: Host) -> Host:
        """Return a host under a name that Ray takes; its address says how it is reached."""
        if not host.name or re.fullmatch(LABEL, host.name):
            return host
        address = host.address or host.name
        first = host.name.partition(".")[0]
        for name in (first, re.sub(r"[^A-Za-z0-9_.-]", "-", host.name).strip("-._")):
            if re.fullmatch(LABEL, name) and self._names.get(name, host).address in (None, address):
                return replace(host, name=name, address=address)
        self.wrong(host.line, f"`{short(host.name)}` cannot be made the name of a node", _LABEL_HINT)
        return replace(host, name="")


_LABEL_HINT = "names are letters, digits, `-`, `_` and `.`, at most 62, with a letter or a digit at both ends"


def _template_hint(text: str) -> str | None:
    return "this is a template: render it first" if _TEMPLATE.search(text) else None


def is_address(word: str) -> bool:
    """Whether a word is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(word)
    except ValueError:
        return False
    return True


def number(text: str | None, low: int, high: int) -> int | None:
    """Return a whole number within bounds that a text is; None for any other text."""
    found = re.fullmatch(r"[0-9]{1,9}", text or "")
    return int(found[0]) if found and low <= int(found[0]) <= high else None


def common_places(hosts: "list[Host]") -> Mapping[str, str]:
    """Return the places that all of some hosts share."""
    first, *rest = hosts
    return {
        level: place for level, place in first.places.items() if all(one.places.get(level) == place for one in rest)
    }
