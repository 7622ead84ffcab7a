"""Hosts of an SSH configuration (ssh_config(5)): the first value that is found for a keyword is the one that holds."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from launcher.config.importers.found import Host
from launcher.config.importers.jumps import from_command, split
from launcher.config.importers.roster import Roster, number, short
from launcher.config.importers.text import Line, lines

MAX_WORK = 2_000_000
"""Patterns that are compared with hosts; a file of 5 MB could ask for a thousand million."""

_LOOPBACK = ("127.", "::1", "localhost")
_WAYS = {"proxyjump", "proxycommand"}
"""Whichever of these is found first is the only one that holds."""

_TAKEN = ("hostname", "user", "port", "identityfile", "proxyjump", "proxycommand")


@dataclass(slots=True)
class _Block:
    """A `Host` block with what it sets, each keyword's first value."""

    line: int
    patterns: tuple[str, ...]
    settings: dict[str, tuple[str, int]] = field(default_factory=dict)

    def matches(self, alias: str) -> bool:
        """Whether the block holds for a name: one pattern does, and none with `!` does."""
        low = alias.lower()
        if any(fnmatchcase(low, pattern[1:]) for pattern in self.patterns if pattern.startswith("!")):
            return False
        return any(fnmatchcase(low, pattern) for pattern in self.patterns if not pattern.startswith("!"))


def read(text: str, roster: Roster) -> None:
    """Add the hosts that the file names without patterns to a roster; those that others go through are none."""
    blocks = _blocks(text, roster)
    named = list(_named(blocks, roster))
    if len(named) * sum(len(block.patterns) for block in blocks) > MAX_WORK:
        roster.wrong(0, "the file names too many hosts and patterns", "keep only the hosts that are to be imported")
        return
    found = [(alias, line, _settings(alias, blocks)) for alias, line in named]
    through = {hop.lower() for _, _, settings in found for hop in _hops(settings)}
    for alias, line, settings in found:
        if alias.lower() in through:
            hint = "it is looked up in your own SSH configuration when they are reached"
            roster.remark(line, f"`{short(alias)}` is what others are reached through: it is left out", hint)
        else:
            _add(alias, line, settings, roster)


def _blocks(text: str, roster: Roster) -> list[_Block]:
    blocks = [_Block(0, ("*",))]
    current: _Block | None = blocks[0]
    for line in lines(text):
        if not line.text:
            continue
        key, value = _words(line)
        if key == "host":
            current = _Block(line.number, tuple(pattern.lower().replace("[", "[[]") for pattern in _unquoted(value)))
            current.settings["@"] = (value, line.number)
            blocks.append(current)
        elif key == "match":
            everybody = value.strip().lower() == "all"
            current = None
            if everybody:
                current = _Block(line.number, ("*",))
                blocks.append(current)
            else:
                what = f"`Match {short(value)}` is not evaluated: what it sets is left out"
                roster.remark(line.number, what, "SSH itself still reads it from your own configuration")
        elif key == "include":
            roster.remark(line.number, f"`Include {short(value)}` is not followed", "import that file as well")
        elif current is not None:
            _keyword(key, value, line.number, current, roster)
    return blocks


def _words(line: Line) -> tuple[str, str]:
    """Return the keyword and the rest, which an `=` or spaces separate."""
    key, _, value = re.sub(r"^(\S+?)\s*(?:=|\s)\s*", r"\1\0", line.text, count=1).partition("\0")
    return key.lower(), value


def _unquoted(value: str) -> list[str]:
    return split(value) if '"' in value else value.split()


def _keyword(key: str, value: str, line: int, block: _Block, roster: Roster) -> None:
    plain = value.strip().strip('"')
    if key == "stricthostkeychecking" and plain.lower() in ("no", "off"):
        roster.remark(line, "`StrictHostKeyChecking no` is not taken over: host keys are always checked")
    elif key == "identityfile" and key in block.settings:
        roster.remark(line, "only the first `IdentityFile` of a host is taken")
    elif key in _TAKEN and plain:
        block.settings.setdefault(key, (plain, line))


def _named(blocks: Sequence[_Block], roster: Roster) -> Iterator[tuple[str, int]]:
    """Return the names that stand without a pattern, in order."""
    seen: set[str] = set()
    for block in blocks:
        written = _unquoted(block.settings.pop("@", ("", 0))[0])
        patterns = [one for one in written if re.search(r"[*?!]", one)]
        if patterns and len(patterns) == len(written) and written != ["*"]:
            roster.remark(block.line, f"`Host {short(' '.join(written))}` is a pattern: it names no machine")
        for alias in written:
            if alias not in patterns and alias.lower() not in seen:
                seen.add(alias.lower())
                yield alias, block.line


def _settings(alias: str, blocks: Sequence[_Block]) -> Mapping[str, tuple[str, int]]:
    settings: dict[str, tuple[str, int]] = {}
    for block in blocks:
        if block.matches(alias):
            for key, value in block.settings.items():
                if not (key in _WAYS and settings.keys() & _WAYS):
                    settings.setdefault(key, value)
    return settings


def _hops(settings: Mapping[str, tuple[str, int]]) -> Iterator[str]:
    jump = settings.get("proxyjump", ("", 0))[0] or from_command(settings.get("proxycommand", ("", 0))[0]) or ""
    for hop in jump.split(","):
        yield re.sub(r":\d+$", "", hop.rpartition("@")[2])


def _add(alias: str, line: int, settings: Mapping[str, tuple[str, int]], roster: Roster) -> None:
    hostname, at = settings.get("hostname", (alias, line))
    address = hostname.replace("%%", "%").replace("%h", alias)
    if address.lower().startswith(_LOOPBACK):
        roster.remark(at, f"the address of `{short(alias)}` is `{short(address)}`, which is this machine itself")
    written, port_at = settings.get("port", (None, line))
    port = number(written, 1, 65535)
    if written is not None and port is None:
        roster.wrong(port_at, f"`{short(written)}` cannot be a port")
    roster.add(
        Host(
            name=alias,
            line=line,
            address=address if address != alias else None,
            user=settings.get("user", (None, 0))[0],
            port=port if port != 22 else None,
            identity_file=_key_file(alias, settings, roster),
            proxy_jump=_jump(alias, settings, roster),
        )
    )


def _key_file(alias: str, settings: Mapping[str, tuple[str, int]], roster: Roster) -> str | None:
    path, line = settings.get("identityfile", (None, 0))
    if path is None or path.lower() == "none":
        return None
    if re.search(r"%[^d%]", path):
        roster.remark(line, f"`IdentityFile {short(path)}` of `{short(alias)}` differs by host, and is left out")
        return None
    return path.replace("%d", "~").replace("%%", "%")


def _jump(alias: str, settings: Mapping[str, tuple[str, int]], roster: Roster) -> str | None:
    jump, _ = settings.get("proxyjump", (None, 0))
    if jump is not None:
        return None if jump.lower() == "none" else jump.replace(" ", "").removeprefix("ssh://")
    command, line = settings.get("proxycommand", (None, 0))
    if command is None or command.lower() == "none":
        return None
    found = from_command(command)
    if found is None:
        hint = "keep it in your own SSH configuration for that address, which is read as OpenSSH reads it"
        roster.remark(line, f"`ProxyCommand` of `{short(alias)}` is not taken over", hint)
    return found
