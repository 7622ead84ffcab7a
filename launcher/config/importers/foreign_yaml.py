"""Read YAML of other programs with positions.

Unknown tags and unused keys are warnings, not mistakes.
"""

from collections.abc import Iterator

import yaml

from launcher.config.yaml.composer import Composer
from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.document import load_events
from launcher.config.yaml.nodes import MappingNode, Mark, ScalarKind, ScalarNode, SequenceNode, YamlNode, describe
from launcher.config.yaml.syntax_errors import syntax_mistake
from launcher.config.yaml.text_file import refuse
from launcher.errors import SpecError


class _TolerantComposer(Composer):
    """Accepts tags such as `!vault`, which are on values that are not read here."""

    def __init__(self, loader: yaml.SafeLoader, out: Diagnostics) -> None:
        super().__init__(loader, out.where)
        self._out = out

    def _bad_tag(self, tag: str, mark: Mark) -> None:
        self._out.warn(mark, f"tag `{tag[:60]}` ignored: the value is read as it is written")


def compose_yaml(text: str, out: Diagnostics) -> tuple[YamlNode, ...]:
    """Return the documents of a text that are not empty.

    SpecError if it is not YAML or has none.
    """
    loader = load_events(text)
    composer = _TolerantComposer(loader, out)
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


def empty(node: YamlNode) -> bool:
    """Whether a value is null."""
    return isinstance(node, ScalarNode) and node.kind is ScalarKind.NULL


class TrackedMapping:
    """A mapping that remembers which keys were read, to report the others."""

    def __init__(self, node: MappingNode, name: str, out: Diagnostics) -> None:
        self.mark = node.mark
        self.line = node.mark.line
        self._name = name
        self._out = out
        self._pairs = {key.text: (key, value) for key, value in node.pairs}
        self._used: set[str] = set()

    def node(self, key: str) -> YamlNode | None:
        """Return the value of a key; None if it is missing or null."""
        self._used.add(key)
        _, value = self._pairs.get(key, (None, None))
        return None if value is None or empty(value) else value

    def line_of(self, key: str) -> int:
        """Return the line of a key; that of the mapping if the key is missing."""
        return self._pairs[key][0].mark.line if key in self._pairs else self.line

    def text(self, key: str) -> str | None:
        """Return a scalar as text; None if it is missing. Any other value is a mistake."""
        value = self.node(key)
        if value is None or isinstance(value, ScalarNode):
            return value.text if value else None
        self._wrong(value, key, "text")
        return None

    def items(self, key: str) -> tuple[YamlNode, ...]:
        """Return the items of a list; none if it is missing.

        Any other value is a mistake.
        """
        value = self.node(key)
        if value is None or isinstance(value, SequenceNode):
            return value.items if value else ()
        self._wrong(value, key, "a list")
        return ()

    def mapping(self, key: str) -> "TrackedMapping | None":
        """Return a mapping; None if it is missing. Any other value is a mistake."""
        value = self.node(key)
        if value is None or isinstance(value, MappingNode):
            return TrackedMapping(value, key, self._out) if value else None
        self._wrong(value, key, "a mapping")
        return None

    def pairs(self) -> Iterator[tuple[ScalarNode, YamlNode]]:
        """Yield all keys with their values."""
        yield from self._pairs.values()

    def rest(self, *known: str) -> tuple[ScalarNode, ...]:
        """Return the keys that were not read, except the `known` ones."""
        return tuple(key for text, (key, _) in self._pairs.items() if text not in self._used and text not in known)

    def _wrong(self, value: YamlNode, key: str, expected: str) -> None:
        self._out.mistake(value.mark, f"`{key}` of `{self._name}` must be {expected}, not {describe(value)}")


def as_mapping(node: YamlNode, name: str, out: Diagnostics) -> TrackedMapping | None:
    """Return a node as a mapping; None if it is another value, which is a mistake."""
    if isinstance(node, MappingNode):
        return TrackedMapping(node, name, out)
    out.mistake(node.mark, f"`{name}` must be a mapping, not {describe(node)}")
    return None
