"""Hosts of an SSH configuration (ssh_config(5)).

The first value of each keyword counts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from launcher.config.importers.collector import HostCollector, number, short
from launcher.config.importers.imported import ImportedHost
from launcher.config.importers.jump_hosts import from_command, split
from launcher.config.importers.text_lines import Line, lines

MAX_WORK = 2_000_000
"""The most comparisons of patterns with hosts; a file of 5 MB could need a thousand million."""

_LOOPBACK = ("127.", "::1", "localhost")
_WAYS = {"proxyjump", "proxycommand"}
"""Only the first of these counts."""

_TAKEN = ("hostname", "user", "port", "identityfile", "proxyjump", "proxycommand")


@dataclass(slots=True)
class _Block:
    """A `Host` block with the first value of each keyword."""

    line: int
    patterns: tuple[str, ...]
    settings: dict[str, tuple[str, int]] = field(default_factory=dict)

    def matches(self, alias: str) -> bool:
        """Whether the block applies to a name: a pattern matches, and none with `!` does."""
        low = alias.lower()
        if any(fnmatchcase(low, pattern[1:]) for pattern in self.patterns if pattern.startswith("!")):
            return False
        return any(fnmatchcase(low, pattern) for pattern in self.patterns if not pattern.startswith("!"))


def read(text: str, collector: HostCollector) -> None:
    """Add the hosts that are not patterns or jump hosts to a collector."""
    blocks = _blocks(text, collector)
    named = list(_named(blocks, collector))
    if len(named) * sum(len(block.patterns) for block in blocks) > MAX_WORK:
        collector.mistake(0, "the file has too many hosts and patterns", "keep only the hosts to import")
        return
    found = [(alias, line, _settings(alias, blocks)) for alias, line in named]
    through = {hop.lower() for _, _, settings in found for hop in _hops(settings)}
    for alias, line, settings in found:
        if alias.lower() in through:
            hint = "its settings are read from `~/.ssh/config` when nvlaunch connects"
            collector.warn(line, f"`{short(alias)}` skipped: it is a jump host", hint)
        else:
            _add(alias, line, settings, collector)


def _blocks(text: str, collector: HostCollector) -> list[_Block]:
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
                hint = "its settings still apply when nvlaunch connects"
                collector.warn(line.number, f"`Match {short(value)}` skipped: it is not evaluated", hint)
        elif key == "include":
            collector.warn(line.number, f"`Include {short(value)}` skipped", "import that file too")
        elif current is not None:
            _keyword(key, value, line.number, current, collector)
    return blocks


def _words(line: Line) -> tuple[str, str]:
    """Return the keyword and the rest, which are separated by `=` or spaces."""
    key, _, value = re.sub(r"^(\S+?)\s*(?:=|\s)\s*", r"\1\0", line.text, count=1).partition("\0")
    return key.lower(), value


def _unquoted(value: str) -> list[str]:
    return split(value) if '"' in value else value.split()


def _keyword(key: str, value: str, line: int, block: _Block, collector: HostCollector) -> None:
    plain = value.strip().strip('"')
    if key == "stricthostkeychecking" and plain.lower() in ("no", "off"):
        collector.warn(line, "`StrictHostKeyChecking no` ignored: host keys are always checked")
    elif key == "identityfile" and key in block.settings:
        collector.warn(line, "`IdentityFile` ignored: only the first one of a host is imported")
    elif key in _TAKEN and plain:
        block.settings.setdefault(key, (plain, line))


def _named(blocks: Sequence[_Block], collector: HostCollector) -> Iterator[tuple[str, int]]:
    """Yield the names without a pattern, in file order."""
    seen: set[str] = set()
    for block in blocks:
        written = _unquoted(block.settings.pop("@", ("", 0))[0])
        patterns = [one for one in written if re.search(r"[*?!]", one)]
        if patterns and len(patterns) == len(written) and written != ["*"]:
            collector.warn(block.line, f"`Host {short(' '.join(written))}` skipped: it is a pattern, not a machine")
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


def _add(alias: str, line: int, settings: Mapping[str, tuple[str, int]], collector: HostCollector) -> None:
    hostname, at = settings.get("hostname", (alias, line))
    address = hostname.replace("%%", "%").replace("%h", alias)
    if address.lower().startswith(_LOOPBACK):
        collector.warn(at, f"the address of `{short(alias)}`, `{short(address)}`, is this machine")
    written, port_at = settings.get("port", (None, line))
    port = number(written, 1, 65535)
    if written is not None and port is None:
        collector.mistake(port_at, f"`{short(written)}` is not a valid port")
    collector.add(
        ImportedHost(
            name=alias,
            line=line,
            address=address if address != alias else None,
            user=settings.get("user", (None, 0))[0],
            port=port if port != 22 else None,
            identity_file=_key_file(alias, settings, collector),
            proxy_jump=_jump(alias, settings, collector),
        )
    )


def _key_file(alias: str, settings: Mapping[str, tuple[str, int]], collector: HostCollector) -> str | None:
    path, line = settings.get("identityfile", (None, 0))
    if path is None or path.lower() == "none":
        return None
    if re.search(r"%[^d%]", path):
        collector.warn(line, f"`IdentityFile {short(path)}` of `{short(alias)}` ignored: it depends on the host")
        return None
    return path.replace("%d", "~").replace("%%", "%")


def _jump(alias: str, settings: Mapping[str, tuple[str, int]], collector: HostCollector) -> str | None:
    jump, _ = settings.get("proxyjump", (None, 0))
    if jump is not None:
        return None if jump.lower() == "none" else jump.replace(" ", "").removeprefix("ssh://")
    command, line = settings.get("proxycommand", (None, 0))
    if command is None or command.lower() == "none":
        return None
    found = from_command(command)
    if found is None:
        hint = "keep it in `~/.ssh/config` for the address of the node"
        collector.warn(line, f"`ProxyCommand` of `{short(alias)}` ignored", hint)
    return found
