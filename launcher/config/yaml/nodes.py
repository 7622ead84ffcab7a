"""What a YAML file consists of, once composed: scalars, lists and mappings that know where they stand."""

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What YAML 1.1 takes a scalar for; `12:30:00` and dates are text here, as everybody who writes them expects."""

    TEXT = "text"
    WHOLE = "a whole number"
    DECIMAL = "a number"
    TRUTH = "true or false"
    NOTHING = "empty"


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a file; line and column count from 1, 0 where there is none."""

    line: int = 0
    column: int = 0


NOWHERE = Mark()


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value as it was written, and what YAML takes it for."""

    mark: Mark
    text: str
    kind: Kind
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    mark: Mark
    items: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Pairs:
    """A mapping: no key stands in it twice, and merge keys are resolved."""

    mark: Mark
    pairs: "tuple[tuple[Scalar, Node], ...]"


Node = Scalar | Items | Pairs


def describe(node: Node) -> str:
    """Return the words that name a value in a message, never longer than a few words."""
    if isinstance(node, Items):
        return "a list" if node.items else "an empty list"
    if isinstance(node, Pairs):
        return "a mapping"
    if node.kind is Kind.NOTHING:
        return "empty"
    shown = node.text if len(node.text) <= 40 else node.text[:37] + "..."
    shown = shown.replace("\n", " ")
    return f'the text "{shown}"' if node.quoted else f"`{shown}`"
