"""The nodes of a YAML file: scalars, sequences, mappings, with positions."""

from dataclasses import dataclass
from enum import Enum


class ScalarKind(Enum):
    """The type of a plain scalar in YAML 1.1.

    Unlike in YAML, `12:30:00` and dates are text, as users expect.
    """

    TEXT = "text"
    INTEGER = "a whole number"
    FLOAT = "a number"
    BOOLEAN = "true or false"
    NULL = "empty"


@dataclass(frozen=True, slots=True)
class Mark:
    """A position in a file; line and column count from 1, and are 0 if there is none."""

    line: int = 0
    column: int = 0


NOWHERE = Mark()


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """One value as written, and its type in YAML."""

    mark: Mark
    text: str
    kind: ScalarKind
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class SequenceNode:
    """A list."""

    mark: Mark
    items: "tuple[YamlNode, ...]"


@dataclass(frozen=True, slots=True)
class MappingNode:
    """A mapping with unique keys; merge keys (`<<`) are resolved."""

    mark: Mark
    pairs: "tuple[tuple[ScalarNode, YamlNode], ...]"


YamlNode = ScalarNode | SequenceNode | MappingNode


def describe(node: YamlNode) -> str:
    """Return a short description of a value for messages."""
    if isinstance(node, SequenceNode):
        return "a list" if node.items else "an empty list"
    if isinstance(node, MappingNode):
        return "a mapping"
    if node.kind is ScalarKind.NULL:
        return "empty"
    shown = node.text if len(node.text) <= 40 else node.text[:37] + "..."
    shown = shown.replace("\n", " ")
    return f'the text "{shown}"' if node.quoted else f"`{shown}`"
