"""The tree that NVIDIA's tools print, as indented text or as XML.

Columns, spelling and the set of keys differ between drivers; the nesting does not. So keys are folded: `ClusterUUID`,
`clusterUuid` and `cluster_uuid` are the same. Unknown keys are kept, and do no harm.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

MAX_TEXT = 4 * 1024 * 1024
MAX_DEPTH = 16
MAX_NODES = 100_000
MAX_WIDTH = 4096
"""The most characters of a value; the longest real one has about sixty."""


@dataclass(slots=True)
class SmiTree:
    """A folded key, the name as printed, its value, and the trees below it."""

    key: str = ""
    name: str = ""
    value: str = ""
    below: "list[SmiTree]" = field(default_factory=list)

    def at(self, *path: str) -> "SmiTree | None":
        """Return the first tree at a path of folded keys; None if there is none."""
        found: SmiTree | None = self
        for key in path:
            found = next((child for child in found.below if child.key == key), None) if found else None
        return found

    def text(self, *path: str) -> str | None:
        """Return the value at a path; None if there is no such key, or if it is `N/A`."""
        found = self.at(*path)
        return found.value if found and found.value not in ("", "N/A", "[N/A]") else None

    def walk(self) -> "Iterator[SmiTree]":
        """Yield this tree and all trees below it."""
        todo = [self]
        while todo:
            tree = todo.pop()
            yield tree
            todo.extend(reversed(tree.below))


def fold(key: str) -> str:
    """Return a key in lower case, without blanks and punctuation."""
    return "".join(c for c in key.casefold() if c.isalnum())


def from_text(text: str) -> SmiTree:
    """Return the tree of `nvidia-smi -q`, which is nested by indentation.

    Lines are `Key : value`, `Key` or `GPU 00000008:01:00.0`.
    """
    root = SmiTree()
    stack: list[tuple[int, SmiTree]] = [(-1, root)]
    for count, line in enumerate(text[:MAX_TEXT].expandtabs(8).splitlines()):
        content = line.strip()
        if not content or content.startswith("=") or count > MAX_NODES:
            continue
        depth = len(line) - len(line.lstrip())
        while len(stack) > 1 and stack[-1][0] >= depth:
            stack.pop()
        name, colon, value = (part.strip() for part in content.partition(" :"))
        if not colon and content.startswith("GPU "):
            name, value = "GPU", content[4:].strip()
        tree = SmiTree(fold(name), name, value)
        stack[-1][1].below.append(tree)
        if len(stack) <= MAX_DEPTH:
            stack.append((depth, tree))
    return root


class _Builder:
    """Builds a tree from the events of an XML parser.

    ValueError for too deep or large input, or a declared entity.
    """

    def __init__(self) -> None:
        self.stack = [SmiTree()]
        self.count = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Begin a tag; its only attribute that is kept is `id`, the bus address of a GPU."""
        self.count += 1
        if len(self.stack) > MAX_DEPTH or self.count > MAX_NODES:
            raise ValueError("too deep, or too many tags")
        tree = SmiTree(fold(name), name, attributes.get("id", ""))
        self.stack[-1].below.append(tree)
        self.stack.append(tree)

    def end(self, _name: str) -> None:
        """End the innermost tag."""
        tree = self.stack.pop()
        tree.value = tree.value.strip()

    def data(self, piece: str) -> None:
        """Append text to the innermost tag."""
        tree = self.stack[-1]
        tree.value = (tree.value + piece)[:MAX_WIDTH]

    def entity(self, *_: object) -> None:
        """Refuse a declared entity, which could expand to a text of any size."""
        raise ValueError("an entity is declared")


def from_xml(text: str) -> SmiTree | None:
    """Return the tree of `nvidia-smi -q -x`.

    None if it is cut off, is not XML, or declares entities.
    """
    builder = _Builder()
    root = builder.stack[0]
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
    parser.CharacterDataHandler, parser.EntityDeclHandler = builder.data, builder.entity
    try:
        parser.Parse(text[:MAX_TEXT], True)
    except (expat.ExpatError, ValueError):
        return None
    return root
