"""Edit the racks of an inventory's YAML in place, and keep its comments."""

from collections.abc import Iterable, Sequence
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from launcher.core.discovery.location import Amendment
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName, expand, fold, natural


class RackEditor:
    """Edits a document in place.

    The nodes of a rack become a mapping only if some need settings of their own.
    """

    def __init__(self, document: Any, fleet: Inventory, wanted: Amendment) -> None:
        self._document = document
        self._racks: Any = document["racks"]
        self._wanted = wanted
        self._levels = fleet.levels[:-1]
        self._made: set[str] = set()
        self._domain = {node.name: wanted.domains.get(node.name, node.domain) for node in fleet.nodes}

    def edit(self) -> None:
        """Apply the amendment to the document."""
        for rack in list(self._racks):
            self._move_out(rack)
        for rack in self._racks:
            self._write_facts(self._racks[rack])
        if self._wanted.accelerator:
            defaults = self._document.get("defaults")
            if defaults is None:
                self._document.insert(list(self._document).index("racks"), "defaults", _flow({}))
                defaults = self._document["defaults"]
            defaults["accelerator"] = self._wanted.accelerator

    def _move_out(self, rack: str) -> None:
        values = self._racks[rack]
        leaving = [name for name in _names(values["nodes"]) if name in self._wanted.racks]
        if not leaving:
            return
        nodes = _as_mapping(values, leaving)
        for name in leaving:
            new = self._wanted.racks[NodeName(name)]
            kept = {key: value for key, value in values.items() if key not in ("nodes", "domain")}
            if new not in self._racks:
                place = list(self._racks).index(rack)
                self._racks.insert(place, new, CommentedMap({**kept, "nodes": CommentedMap()}))
                self._made.add(new)
            elif new in self._made:
                for level in self._levels:
                    if self._racks[new].get(level) != kept.get(level):
                        self._racks[new].pop(level, None)
            there = _as_mapping(self._racks[new], ())
            comment = nodes.ca.items.pop(name, None)
            there[name] = nodes.pop(name)
            if comment is not None:
                there.ca.items[name] = comment
        if not nodes:
            del self._racks[rack]

    def _write_facts(self, values: Any) -> None:
        """Write domains and trays of the nodes of a rack."""
        names = _names(values["nodes"])
        domains = {self._domain[NodeName(name)] for name in names}
        told = [name for name in names if name in self._wanted.domains]
        moved = [name for name in names if name in self._wanted.racks]
        if len(domains) == 1 and None not in domains:
            if told or moved:
                if "domain" not in values:
                    values.insert(list(values).index("nodes"), "domain", "")
                values["domain"] = next(iter(domains))
                _strip(values["nodes"], "domain")
            told = []
        trays = [name for name in names if name in self._wanted.trays]
        if own := [name for name in names if name in told or name in trays]:
            nodes = _as_mapping(values, own)
            for name in own:
                _set(nodes, name, "domain", self._wanted.domains.get(NodeName(name)) if name in told else None)
                _set(nodes, name, "tray", self._wanted.trays.get(NodeName(name)))
        if moved:
            _refold(values)


def _names(nodes: Any) -> list[str]:
    """Return the names of a rack's nodes, in any of the three notations."""
    texts: Iterable[str] = [nodes] if isinstance(nodes, str) else nodes
    return [name for text in texts for name in expand(text)]


def _flow(values: dict[str, object]) -> CommentedMap:
    made = CommentedMap(values)
    made.fa.set_flow_style()
    return made


def _as_mapping(values: Any, single: Sequence[str]) -> Any:
    """Return the nodes of a rack as a mapping.

    Each name of `single` has an entry of its own.
    """
    nodes = values["nodes"]
    if not isinstance(nodes, CommentedMap):
        made = CommentedMap()
        for at, text in enumerate([nodes] if isinstance(nodes, str) else nodes):
            made[text] = None
            if isinstance(nodes, CommentedSeq) and at in nodes.ca.items:
                made.ca.items[text] = [None, None, nodes.ca.items[at][0], None]
        values["nodes"] = nodes = made
    if values.fa.flow_style():
        values.fa.set_block_style()
    if nodes.fa.flow_style():
        nodes.fa.set_block_style()
    wanted = set(single)
    for text in list(nodes):
        names = expand(text)
        if len(names) > 1 and wanted & set(names):
            _split(nodes, text, names, wanted)
    return nodes


def _split(nodes: Any, text: str, names: Sequence[str], wanted: "set[str]") -> None:
    """Replace a range by entries for the wanted names and ranges for the rest."""
    at = list(nodes).index(text)
    comment, value = nodes.ca.items.pop(text, None), nodes.pop(text)
    parts: list[list[str]] = []
    for name in names:
        if parts and name not in wanted and parts[-1][-1] not in wanted:
            parts[-1].append(name)
        else:
            parts.append([name])
    for place, part in enumerate(parts):
        key = part[0] if len(part) == 1 else fold(part)
        nodes.insert(at + place, key, value if value is None else _flow(dict(value)))
    if comment is not None:
        nodes.ca.items[parts[0][0] if len(parts[0]) == 1 else fold(parts[0])] = comment


def _set(nodes: Any, name: str, key: str, value: object) -> None:
    if value is None:
        return
    if nodes[name] is None:
        nodes[name] = _flow({})
    nodes[name][key] = value


def _strip(nodes: Any, key: str) -> None:
    """Remove a key from the entries of nodes, since the rack has it now."""
    for text in nodes if isinstance(nodes, CommentedMap) else ():
        if nodes[text] is not None and key in nodes[text]:
            del nodes[text][key]
            if not nodes[text]:
                nodes[text] = None


def _refold(values: Any) -> None:
    """Write the nodes of a rack as one range if none has settings or a comment."""
    nodes = values["nodes"]
    if isinstance(nodes, CommentedMap) and not nodes.ca.items:
        if all(value is None for value in nodes.values()):
            values["nodes"] = DoubleQuotedScalarString(fold(_names(nodes)))
            return
        ordered = sorted(nodes, key=natural)
        values["nodes"] = CommentedMap((name, nodes[name]) for name in ordered)
