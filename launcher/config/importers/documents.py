"""YAML of other programs to nodes with positions; tags that only they know are remarked on, not refused."""

from collections.abc import Iterator

import yaml

from launcher.config.yaml.compose import Composer
from launcher.config.yaml.document import load_events
from launcher.config.yaml.nodes import Items, Kind, Mark, Node, Pairs, Scalar, describe
from launcher.config.yaml.reading import Reading
from launcher.config.yaml.source import refuse
from launcher.config.yaml.syntax import syntax_mistake
from launcher.errors import SpecError


class _Tolerant(Composer):
    """`!vault` and its like stand before values that we do not read."""

    def __init__(self, loader: yaml.SafeLoader, out: Reading) -> None:
        super().__init__(loader, out.where)
        self._out = out

    def _bad_tag(self, tag: str, mark: Mark) -> None:
        self._out.warn(mark, f"the tag `{tag[:60]}` means nothing here: its value is taken as it stands")


def compose(text: str, out: Reading) -> tuple[Node, ...]:
    """Return the documents of a text that hold anything; SpecError where it is no YAML or holds none."""
    loader = load_events(text)
    composer = _Tolerant(loader, out)
    try:
        roots = tuple(root for _, root in composer.documents() if not empty(root))
    except yaml.MarkedYAMLError as error:
        raise SpecError((*composer.mistakes, syntax_mistake(error, text, out.where))) from error
    except SpecError as error:
        raise SpecError((*composer.mistakes, *error.mistakes)) from error
    finally:
        loader.dispose()
    for mistake in composer.mistakes:
        out.mistake(Mark(mistake.line, mistake.column), mistake.what, mistake.hint)
    if not roots:
        raise refuse(out.where, "the file is empty")
    return roots


def empty(node: Node) -> bool:
    """Whether nothing is written there."""
    return isinstance(node, Scalar) and node.kind is Kind.NOTHING


class Section:
    """A mapping of another program: what is taken out of it is noted, and what is left over can be told."""

    def __init__(self, node: Pairs, name: str, out: Reading) -> None:
        self.mark = node.mark
        self.line = node.mark.line
        self._name = name
        self._out = out
        self._pairs = {key.text: (key, value) for key, value in node.pairs}
        self._used: set[str] = set()

    def node(self, key: str) -> Node | None:
        """Return what is written under a key; None for nothing."""
        self._used.add(key)
        _, value = self._pairs.get(key, (None, None))
        return None if value is None or empty(value) else value

    def line_of(self, key: str) -> int:
        """Return the line of a key, or of the section where it is not there."""
        return self._pairs[key][0].mark.line if key in self._pairs else self.line

    def text(self, key: str) -> str | None:
        """Return a scalar as text; another value is a mistake."""
        value = self.node(key)
        if value is None or isinstance(value, Scalar):
            return value.text if value else None
        self._wrong(value, key, "text")
        return None

    def items(self, key: str) -> tuple[Node, ...]:
        """Return the items of a list; none where there is no such key, and another value is a mistake."""
        value = self.node(key)
        if value is None or isinstance(value, Items):
            return value.items if value else ()
        self._wrong(value, key, "a list")
        return ()

    def section(self, key: str) -> "Section | None":
        """Return a mapping; another value is a mistake."""
        value = self.node(key)
        if value is None or isinstance(value, Pairs):
            return Section(value, key, self._out) if value else None
        self._wrong(value, key, "a mapping")
        return None

    def pairs(self) -> Iterator[tuple[Scalar, Node]]:
        """Return all keys with their values."""
        yield from self._pairs.values()

    def has(self, key: str) -> bool:
        """Whether a key is there at all."""
        return key in self._pairs

    def rest(self, *known: str) -> tuple[Scalar, ...]:
        """Return the keys that nobody asked for and that are not among those `known` to mean nothing here."""
        return tuple(key for text, (key, _) in self._pairs.items() if text not in self._used and text not in known)

    def _wrong(self, value: Node, key: str, word: str) -> None:
        self._out.mistake(value.mark, f"`{key}` of `{self._name}` must be {word}, not {describe(value)}")


def section(node: Node, name: str, out: Reading) -> Section | None:
    """Return a node as a mapping; another one is a mistake."""
    if isinstance(node, Pairs):
        return Section(node, name, out)
    out.mistake(node.mark, f"`{name}` must be a mapping, not {describe(node)}")
    return None
