"""What nodes told, written into the file of an inventory: its comments stay, and every line that need not change.

ruamel.yaml keeps comments, but not spaces within lines: so the file is written twice, as it is and as it should be, and
only what differs between the two is taken over into the text.
"""

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from launcher.core.fleet import Inventory, Node, NodeName
from launcher.core.nodeset import expand, fold, natural
from launcher.core.whereabouts import Amendment, is_unsorted
from launcher.errors import Mistake, SpecError
from launcher.spec.foreign.write import UNSORTED_COMMENT
from launcher.spec.inventory import parse_inventory

_WIDE = 1_000_000


def amended(text: str, path: Path, wanted: Amendment) -> str:
    """Answer the text of an inventory with an amendment; SpecError where it cannot be written without harm.

    The answer has been read again: it says of each node what was wanted, and of all else what it said before.
    """
    before = parse_inventory(text, path)
    writer = _yaml(text)
    try:
        as_is, document = _dump(writer, writer.load(text)), writer.load(text)
    except (YAMLError, ValueError) as error:
        raise _refusal(path, "the file is YAML of a kind that cannot be amended") from error
    _check_keys(document, path)
    _Editor(document, before, wanted).edit()
    should_be = _dump(writer, document)
    odd: tuple[str, ...] = ()
    for attempt in (_merged(text, as_is, should_be), should_be):
        candidate = _without_stale_comment(attempt)
        odd = _odd(candidate, path, before, wanted)
        if not odd:
            return candidate
    raise _refusal(path, f"what {fold(odd)} told cannot be written without changing more of what the file says")


def _refusal(path: Path, what: str) -> SpecError:
    hint = "write it by hand: `nvlaunch inventory check` shows what they told"
    return SpecError((Mistake(what=what, where=str(path), hint=hint),))


def _yaml(text: str) -> YAML:
    writer = YAML()
    writer.preserve_quotes = True
    writer.width = _WIDE
    indents = [len(line) - len(line.lstrip(" ")) for line in text.splitlines() if line.startswith(" ")]
    writer.indent(mapping=min(indents, default=2) or 2)
    return writer


def _dump(writer: YAML, document: Any) -> str:
    out = StringIO()
    writer.dump(document, out)
    return out.getvalue()


def _check_keys(document: Any, path: Path) -> None:
    """Refuse names that this library reads as numbers: `07` would come back as 7."""
    racks = document["racks"]
    nodes = [rack["nodes"] for rack in racks.values()]
    keys = [*racks, *(key for one in nodes if isinstance(one, CommentedMap | CommentedSeq) for key in one)]
    odd = [key for key in keys if not isinstance(key, str)]
    if odd:
        what = f"the name `{odd[0]}` is a number to other programs"
        raise SpecError((Mistake(what=what, where=str(path), hint=f'quote it: "{odd[0]}"'),))


def _merged(text: str, as_is: str, should_be: str) -> str:
    """Answer the text with the lines that differ between two others, of which the first says the same as it."""
    own, before, after = (one.splitlines(keepends=True) for one in (text, as_is, should_be))
    if len(own) != len(before):
        return should_be
    lines: list[str] = []
    for tag, low, high, begin, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        lines += own[low:high] if tag == "equal" else after[begin:end]
    return "".join(lines)


def _without_stale_comment(text: str) -> str:
    stale = f"{UNSORTED_COMMENT}\n"
    rest = text.partition(stale)[2]
    names = (line.strip().strip('"').partition(":")[0] for line in rest.splitlines())
    return text if any(is_unsorted(name) for name in names) else text.replace(stale, "")


def _odd(text: str, path: Path, before: Inventory, wanted: Amendment) -> tuple[str, ...]:
    """Answer the nodes of which a text says not what is wanted, or in all else not what was said before."""
    try:
        after = {node.name: node for node in parse_inventory(text, path).nodes}
    except SpecError:
        after = {}
    return tuple(
        node.name for node in before.nodes if node.name not in after or not _as_wanted(node, after[node.name], wanted)
    )


def _as_wanted(before: Node, after: Node, wanted: Amendment) -> bool:
    name = before.name
    return (
        after.rack == wanted.racks.get(name, before.rack)
        and after.domain == wanted.domains.get(name, before.domain)
        and after.tray == wanted.trays.get(name, after.tray)
        and (name in wanted.racks or after.places == before.places)
        and (after.access, after.drained, after.gpus) == (before.access, before.drained, before.gpus)
    )


class _Editor:
    """Edits a document in place. A rack's nodes become a mapping only where some of them need words of their own."""

    def __init__(self, document: Any, fleet: Inventory, wanted: Amendment) -> None:
        self._document = document
        self._racks: Any = document["racks"]
        self._wanted = wanted
        self._levels = fleet.levels[:-1]
        self._made: set[str] = set()
        self._domain = {node.name: wanted.domains.get(node.name, node.domain) for node in fleet.nodes}

    def edit(self) -> None:
        """Make the document say what is wanted."""
        for rack in list(self._racks):
            self._move_out(rack)
        for rack in self._racks:
            self._tell(self._racks[rack])
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

    def _tell(self, values: Any) -> None:
        """Write domains and trays of the nodes of a rack, and fold its nodes again where they need no words."""
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
    """Answer the names of a rack's nodes, whichever way they are written."""
    texts: Iterable[str] = [nodes] if isinstance(nodes, str) else nodes
    return [name for text in texts for name in expand(text)]


def _flow(values: dict[str, object]) -> CommentedMap:
    made = CommentedMap(values)
    made.fa.set_flow_style()
    return made


def _as_mapping(values: Any, single: Sequence[str]) -> Any:
    """Answer a rack's nodes as a mapping in which each of some names has an entry of its own."""
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
    """Put in place of a range its names that are wanted alone, and ranges for the runs between them."""
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
    """Take a key away from the entries of nodes: the rack says it now."""
    for text in nodes if isinstance(nodes, CommentedMap) else ():
        if nodes[text] is not None and key in nodes[text]:
            del nodes[text][key]
            if not nodes[text]:
                nodes[text] = None


def _refold(values: Any) -> None:
    """Write a rack's nodes as one range where none of them has settings or a comment."""
    nodes = values["nodes"]
    if isinstance(nodes, CommentedMap) and not nodes.ca.items:
        if all(value is None for value in nodes.values()):
            values["nodes"] = DoubleQuotedScalarString(fold(_names(nodes)))
            return
        ordered = sorted(nodes, key=natural)
        values["nodes"] = CommentedMap((name, nodes[name]) for name in ordered)
