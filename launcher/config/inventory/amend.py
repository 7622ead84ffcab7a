"""Amend the file of an inventory with facts from its nodes.

Comments and other lines are not changed. ruamel.yaml keeps comments, but not spaces within lines. So it writes the file
twice, unchanged and amended, and only the lines that differ between the two are copied into the text.
"""

from collections import Counter
from difflib import SequenceMatcher
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

from launcher.config.importers.write import UNSORTED_COMMENT
from launcher.config.inventory.rack_editor import RackEditor
from launcher.config.inventory.read import parse_inventory
from launcher.core.discovery.location import Amendment, is_unsorted
from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.nodeset import fold
from launcher.errors import Mistake, SpecError

_WIDE = 1_000_000

MANY = 16_000_000
"""Pairs of lines up to which two texts are compared line by line; above it, spaces within lines are not kept."""


def amended(text: str, path: Path, wanted: Amendment) -> str:
    """Return the text of an inventory with an amendment.

    SpecError if it cannot be amended safely. The result has been read again: each node has the wanted values, and all
    others are unchanged.
    """
    before = parse_inventory(text, path)
    writer = _yaml(text)
    try:
        as_is, document = _dump(writer, writer.load(text)), writer.load(text)
    except (YAMLError, ValueError) as error:
        raise _refusal(path, "the YAML of this file cannot be amended") from error
    _check_keys(document, path)
    RackEditor(document, before, wanted).edit()
    should_be = _dump(writer, document)
    changed: tuple[str, ...] = ()
    for attempt in (_merged(text, as_is, should_be), should_be):
        candidate = _without_stale_comment(_with_lost_comments(text, attempt))
        changed = _not_as_wanted(candidate, path, before, wanted)
        if not changed:
            return candidate
    raise _refusal(path, f"the facts of {fold(changed)} cannot be written without changing other values of the file")


def _refusal(path: Path, what: str) -> SpecError:
    hint = "edit the file by hand: `nvlaunch inventory check` shows the facts"
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
    """Refuse names that ruamel.yaml reads as numbers: `07` would be written as 7."""
    racks = document["racks"]
    nodes = [rack["nodes"] for rack in racks.values()]
    keys = [*racks, *(key for one in nodes if isinstance(one, CommentedMap | CommentedSeq) for key in one)]
    odd = [key for key in keys if not isinstance(key, str)]
    if odd:
        what = f"the name `{odd[0]}` is read as a number by other programs"
        raise SpecError((Mistake(what=what, where=str(path), hint=f'quote it: "{odd[0]}"'),))


def _merged(text: str, as_is: str, should_be: str) -> str:
    """Return the text with the changes from `as_is` to `should_be`.

    `as_is` has the same values as the text.
    """
    own, before, after = (one.splitlines(keepends=True) for one in (text, as_is, should_be))
    if len(own) != len(before) or len(before) * len(after) > MANY:
        return should_be
    lines: list[str] = []
    for tag, low, high, begin, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        lines += own[low:high] if tag == "equal" else after[begin:end]
    return "".join(lines)


def _with_lost_comments(before: str, after: str) -> str:
    """Return the text with comment lines that were lost with a rack.

    Each is inserted before the next line that still exists. ruamel.yaml attaches a comment to the line before it, but
    its author means the line after it.
    """
    lines = after.splitlines(keepends=True)
    kept = Counter(line.strip() for line in lines)
    old = before.splitlines(keepends=True)
    if not Counter(line.strip() for line in old if line.lstrip().startswith("#")) - kept:
        return after
    at = len(lines)
    for place in range(len(old) - 1, -1, -1):
        line = old[place]
        if kept[line.strip()] > 0:
            kept[line.strip()] -= 1
            at = next((index for index in range(at - 1, -1, -1) if lines[index].strip() == line.strip()), at)
        elif line.lstrip().startswith("#"):
            lines.insert(at, line)
    return "".join(lines)


def _without_stale_comment(text: str) -> str:
    stale = f"{UNSORTED_COMMENT}\n"
    rest = text.partition(stale)[2]
    names = (line.strip().strip('"').partition(":")[0] for line in rest.splitlines())
    return text if any(is_unsorted(name) for name in names) else text.replace(stale, "")


def _not_as_wanted(text: str, path: Path, before: Inventory, wanted: Amendment) -> tuple[str, ...]:
    """Return the nodes whose values in a text are not the wanted ones."""
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
