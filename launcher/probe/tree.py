"""The two forms in which NVIDIA's tools print one and the same tree: by indentation, and as XML.

Columns, key spellings and the set of keys differ from driver to driver; depth and key do not. So a tree has its keys
folded (`ClusterUUID`, `clusterUuid` and `cluster_uuid` are one), and a key that nobody asks for is just data.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

MAX_TEXT = 4 * 1024 * 1024
MAX_DEPTH = 16
MAX_NODES = 100_000
MAX_WIDTH = 4096
"""Characters of a value; the longest that a driver prints has some sixty."""


@dataclass(slots=True)
class Tree:
    """A key as folded, the name it was printed with, its value, and what stands below it. Built once, then read."""

    key: str = ""
    name: str = ""
    value: str = ""
    below: "list[Tree]" = field(default_factory=list)

    def at(self, *path: str) -> "Tree | None":
        """Return the first tree at a path of folded keys."""
        found: Tree | None = self
        for key in path:
            found = next((child for child in found.below if child.key == key), None) if found else None
        return found

    def text(self, *path: str) -> str | None:
        """Return the value at a path; None where there is no such key, or where the driver says `N/A`."""
        found = self.at(*path)
        return found.value if found and found.value not in ("", "N/A", "[N/A]") else None

    def walk(self) -> "Iterator[Tree]":
        """Return this tree and all below it."""
        todo = [self]
        while todo:
            tree = todo.pop()
            yield tree
            todo.extend(reversed(tree.below))


def fold(key: str) -> str:
    """Return a key without case, blanks and punctuation."""
    return "".join(c for c in key.casefold() if c.isalnum())


def from_text(text: str) -> Tree:
    """Return the tree of `nvidia-smi -q`: `Key : value`, `Key` or `GPU 00000008:01:00.0`, nested by indentation."""
    root = Tree()
    stack: list[tuple[int, Tree]] = [(-1, root)]
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
        tree = Tree(fold(name), name, value)
        stack[-1][1].below.append(tree)
        if len(stack) <= MAX_DEPTH:
            stack.append((depth, tree))
    return root


class _Builder:
    """Builds a tree from the events of an XML parser; a ValueError ends what is too deep, too long, or a trick."""

    def __init__(self) -> None:
        self.stack = [Tree()]
        self.count = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Begin a tag; of its attributes only `id` is of interest, the bus address of a GPU."""
        self.count += 1
        if len(self.stack) > MAX_DEPTH or self.count > MAX_NODES:
            raise ValueError("too deep, or too much of it")
        tree = Tree(fold(name), name, attributes.get("id", ""))
        self.stack[-1].below.append(tree)
        self.stack.append(tree)

    def end(self, _name: str) -> None:
        """End the innermost tag."""
        tree = self.stack.pop()
        tree.value = tree.value.strip()

    def data(self, piece: str) -> None:
        """Take text of the innermost tag."""
        tree = self.stack[-1]
        tree.value = (tree.value + piece)[:MAX_WIDTH]

    def entity(self, *_: object) -> None:
        """Refuse a declared entity: a driver declares none, and they can blow up a text without end."""
        raise ValueError("an entity is declared")


def from_xml(text: str) -> Tree | None:
    """Return the tree of `nvidia-smi -q -x`; None where it is cut off, is no XML, or plays tricks with entities."""
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
