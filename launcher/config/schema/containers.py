"""Types of lists, and of mappings with free keys."""

import re
from dataclasses import dataclass

from launcher.config.schema.scalars import Text
from launcher.config.schema.value_types import InvalidValueError, Schema, ValueType, invalid, read_or_report
from launcher.config.yaml.diagnostics import KeyPath
from launcher.config.yaml.nodes import MappingNode, ScalarKind, ScalarNode, SequenceNode, YamlNode
from launcher.config.yaml.values import FieldValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """A list of values.

    With `filled` it must not be empty, with `single` one value without a list is accepted.
    """

    item: ValueType
    expected: str = "a list"
    single: bool = False
    filled: bool = False

    def read(self, node: YamlNode, at: KeyPath) -> tuple[object, ...]:
        """Return the valid items."""
        if self.single and isinstance(node, ScalarNode) and node.kind is not ScalarKind.NULL:
            return (self.item.read(node, at),)
        if not isinstance(node, SequenceNode):
            raise invalid(node, at, self.expected)
        if self.filled and not node.items:
            raise InvalidValueError(node.mark, f"`{at.name}` is empty", f"it must be {self.expected}")
        read = [
            read_or_report(self.item, item, KeyPath(f"{at.name}[{index}]", at.out))
            for index, item in enumerate(node.items)
        ]
        return tuple(value for value in read if value is not None)

    def schema(self) -> Schema:
        """Return an array, or also a single item."""
        items = self.item.schema()
        array: Schema = {"type": "array", "items": items, **({"minItems": 1} if self.filled else {})}
        return {"anyOf": [items, array]} if self.single else array


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOf:
    """A mapping of free keys, which match one pattern, to values of one type."""

    item: ValueType
    keys: Text
    expected: str = "a mapping"
    filled: bool = False
    hint: str | None = None

    def read(self, node: YamlNode, at: KeyPath) -> dict[str, FieldValue]:
        """Return the valid values by key."""
        if not isinstance(node, MappingNode):
            raise invalid(node, at, self.expected, self.hint)
        if self.filled and not node.pairs:
            raise InvalidValueError(node.mark, f"`{at.name}` is empty", f"it must be {self.expected}")
        found: dict[str, FieldValue] = {}
        for key, item in node.pairs:
            if self.keys.pattern and not re.fullmatch(self.keys.pattern, key.text):
                at.out.mistake(key.mark, f"`{key.text}` is not {self.keys.expected}", self.keys.hint)
                continue
            value = read_or_report(self.item, item, at.inside(key.text))
            if value is not None:
                found[key.text] = FieldValue(value, item.mark, key.mark)
        return found

    def schema(self) -> Schema:
        """Return an object with a pattern for its keys."""
        keys = {"propertyNames": {"pattern": f"^({self.keys.pattern})$"}} if self.keys.pattern else {}
        filled = {"minProperties": 1} if self.filled else {}
        return {"type": "object", "additionalProperties": self.item.schema(), **keys, **filled}
