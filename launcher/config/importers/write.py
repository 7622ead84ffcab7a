"""Write an imported inventory as our YAML; one writer for all formats."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from launcher.config.importers.collector import common_places
from launcher.config.importers.imported import ImportedHost
from launcher.config.importers.read import ImportedInventory
from launcher.config.schema.patterns import LABEL
from launcher.core.discovery.location import UNSORTED
from launcher.core.model.inventory import RACK_LEVEL
from launcher.core.model.nodeset import fold, natural
from launcher.core.model.text import count
from launcher.errors import Mistake

_LOGIN = ("user", "port", "identity_file", "proxy_jump")
_SHARED = (*_LOGIN, "gpus", "accelerator")
_PLAIN = re.compile(r"[A-Za-z~/][A-Za-z0-9_./@-]*|[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
# YAML 1.1 does not read these as text.
_NOT_TEXT = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"}


UNSORTED_COMMENT = "  # The racks of the nodes below are unknown: move them to their racks."
"""The line above the first group of nodes without a rack; it is removed with the last such group."""

LONGEST_KEY = 1000
"""The longest key in characters: YAML allows 1024, quotes included (https://yaml.org/spec/1.1/#id934537)."""


def quoted(value: object) -> str:
    """Return a value as YAML, in quotes if it would be read as another value."""
    text = str(value)
    if isinstance(value, int) or (_PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT):
        return text
    return json.dumps(text, ensure_ascii=False)


def inventory_text(found: ImportedInventory, name: str | None = None) -> tuple[str, tuple[Mistake, ...]]:
    """Return the text of an inventory, and warnings about values that it leaves out."""
    writer = _Writer(found)
    return "\n".join(writer.lines(name or Path(found.source).stem)) + "\n", tuple(writer.warnings)


class _Writer:
    """Writes one inventory.

    Settings of all hosts become defaults, settings of all hosts of a rack are written at the rack.
    """

    def __init__(self, found: ImportedInventory) -> None:
        self._found = found
        self._defaults = _shared(found.hosts, _SHARED)
        self._racks = _racks(found)
        self.warnings: list[Mistake] = []

    def lines(self, name: str) -> Iterator[str]:
        """Yield the lines."""
        source = re.sub(r"[^A-Za-z0-9 _./@+-]", "?", Path(self._found.source).name)[:80]
        yield f"# Made by `nvlaunch inventory import` from {self._found.title}, {source}."
        yield "# `nvlaunch inventory discover` adds racks, NVLink domains and trays from the nodes."
        plain = re.sub(r"[^A-Za-z0-9_.-]", "-", name).strip("-._")[:62].rstrip("-._")
        yield f"name: {quoted(plain if re.fullmatch(LABEL, plain) else 'imported')}"
        levels = [level for level in self._found.levels if any(level in host.places for host in self._found.hosts)]
        if levels:
            yield f"levels: [{', '.join((*levels, RACK_LEVEL))}]"
        if self._defaults:
            yield f"defaults: {_flow(self._defaults)}"
        yield ""
        yield "racks:"
        known = True
        for rack, hosts in self._racks.items():
            if known and hosts[0].rack is None:
                known = False
                yield UNSORTED_COMMENT
            yield from self._rack(rack, hosts)

    def _rack(self, rack: str, hosts: list[ImportedHost]) -> Iterator[str]:
        shared = _shared(hosts, (*_SHARED, "domain"))
        shared = {key: value for key, value in shared.items() if self._defaults.get(key) != value}
        places = common_places(hosts)
        self._warn_of_split(rack, hosts, places)
        head = {**{level: places[level] for level in self._found.levels if level in places}, **shared}
        own = {host.name: _own(host, {**self._defaults, **shared}) for host in hosts}
        if not any(own.values()):
            names = fold(host.name for host in hosts)
            yield f"  {quoted(rack)}: {_flow({**head, 'nodes': names})}"
            return
        yield f"  {quoted(rack)}:"
        for key, value in head.items():
            yield f"    {key}: {quoted(value)}"
        yield "    nodes:"
        for key, settings in _entries(own):
            yield f"      {quoted(key)}:{' ' + _flow(settings) if settings else ''}"

    def _warn_of_split(self, rack: str, hosts: Sequence[ImportedHost], places: Mapping[str, str]) -> None:
        """Warn of an omitted level: the rack is in several domains of it."""
        for level in self._found.levels:
            told = sorted({place for host in hosts if (place := host.places.get(level)) is not None})
            if told and level not in places:
                what = f"level `{level}` of rack `{rack}` omitted: its nodes are not in one {level} (`{told[0]}`, ...)"
                self.warnings.append(Mistake(what=what, where=self._found.source, line=hosts[0].line, column=1))


def _racks(found: ImportedInventory) -> dict[str, list[ImportedHost]]:
    """Return hosts by rack.

    Those without one come last, grouped by the finest level that is known.
    """
    racks: dict[str, list[ImportedHost]] = {}
    lost: dict[str, list[ImportedHost]] = {}
    known = {host.rack for host in found.hosts}
    for host in found.hosts:
        if host.rack is not None:
            racks.setdefault(host.rack, []).append(host)
        else:
            lost.setdefault(_unsorted(host, found.levels, known), []).append(host)
    ordered = sorted(racks, key=natural)
    return {**{rack: racks[rack] for rack in ordered}, **{rack: lost[rack] for rack in sorted(lost, key=natural)}}


def _unsorted(host: ImportedHost, levels: Sequence[str], known: "set[str | None]") -> str:
    finest = next((host.places[level] for level in reversed(levels) if level in host.places), None)
    name = f"{UNSORTED}-{finest}"[:62].rstrip("-._") if finest else UNSORTED
    return name if name not in known else f"{UNSORTED}-nodes"


def _shared(hosts: Sequence[ImportedHost], keys: Sequence[str]) -> dict[str, object]:
    first = hosts[0]
    return {
        key: value
        for key in keys
        if (value := getattr(first, key)) is not None and all(getattr(host, key) == value for host in hosts)
    }


def _own(host: ImportedHost, above: Mapping[str, object]) -> dict[str, object]:
    address = {"address": host.address} if host.address is not None and host.address != host.name else {}
    rest = {
        key: value
        for key in (*_SHARED, "domain", "drained")
        if (value := getattr(host, key)) is not None and above.get(key) != value
    }
    return {**address, **rest}


def _entries(own: Mapping[str, dict[str, object]]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield each node with its settings.

    Neighbours with equal settings are folded into a range.
    """
    ordered = sorted(own.items(), key=lambda item: natural(item[0]))
    at = 0
    while at < len(ordered):
        _, settings = ordered[at]
        end = at + 1
        while end < len(ordered) and ordered[end][1] == settings and "address" not in settings:
            end += 1
        yield from ((key, settings) for key in _keys([one for one, _ in ordered[at:end]]))
        at = end


def _keys(names: Sequence[str]) -> Iterator[str]:
    """Yield ranges that contain all names, short enough for keys of YAML."""
    text = fold(names) if len(names) > 1 else names[0]
    if len(text) <= LONGEST_KEY or len(names) == 1:
        yield text
        return
    half = len(names) // 2
    yield from _keys(names[:half])
    yield from _keys(names[half:])


def _flow(settings: Mapping[str, object]) -> str:
    return "{" + ", ".join(f"{key}: {quoted(value)}" for key, value in settings.items()) + "}"


def rackless_message(found: ImportedInventory) -> str:
    """Return the warning about hosts whose rack is unknown."""
    names = found.rackless
    whose = "all nodes" if len(names) == len(found.hosts) else count(len(names), "node")
    return f"rack unknown for {whose}: move them from `{UNSORTED}` to their racks, or use `nvlaunch inventory discover`"
