"""Tables of keys: a `Field` for each, used by parser, JSON Schema and docs."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from launcher.config.schema.value_types import Schema, ValueType, invalid, read_or_report
from launcher.config.yaml.diagnostics import Diagnostics, KeyPath
from launcher.config.yaml.nodes import MappingNode, Mark, ScalarKind, ScalarNode, YamlNode
from launcher.config.yaml.values import FieldValue, Values


class Use(Enum):
    """How a key of a file is treated."""

    EXECUTED = "executed"
    LATER = "checked, then refused unless it has its default value: a later version executes it"
    IGNORED = "accepted with a warning: a key of SkyPilot's that has no effect"
    REFUSED = "refused with the reason and with what to use instead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One key of a file.

    `doc` is its description in the JSON Schema, `default` the value if the key is missing, as written in a file. With
    `filled` it must not be empty. `why` is the reason for IGNORED and REFUSED, `instead` the hint.
    """

    name: str
    doc: str
    type: ValueType | None = None
    default: object = None
    use: Use = Use.EXECUTED
    why: str = ""
    instead: str | None = None
    required: bool = False
    filled: bool = False

    def read(self, key: ScalarNode, node: YamlNode, at: KeyPath) -> FieldValue | None:
        """Return the value of this key; None if the key counts as missing."""
        name, out = at.name, at.out
        if self.use in (Use.REFUSED, Use.IGNORED) and isinstance(node, ScalarNode) and node.kind is ScalarKind.NULL:
            return None  # SkyPilot treats null as missing
        if self.use is Use.REFUSED:
            out.mistake(key.mark, f"`{name}` is not supported: {self.why}", self.instead)
            return None
        if self.use is Use.IGNORED or self.type is None:
            out.warn(key.mark, f"`{name}` has no effect: {self.why}", self.instead)
            return None
        if isinstance(node, ScalarNode) and node.kind is ScalarKind.NULL:
            return self._empty(key, node, at)
        value = read_or_report(self.type, node, at)
        if self.use is Use.LATER and value is not None and value != self.default:
            shown = f"{name}: {node.text}" if self.default is not None and isinstance(node, ScalarNode) else name
            out.mistake(key.mark, f"`{shown}` is not supported by this version", self.instead or "remove it")
        return FieldValue(value, node.mark, key.mark)

    def _empty(self, key: ScalarNode, node: YamlNode, at: KeyPath) -> FieldValue | None:
        if not (self.required or self.filled):
            return None
        at.out.mistake(key.mark, f"`{at.name}` is empty", "give it a value, or remove the line")
        return FieldValue(None, node.mark, key.mark)

    def schema(self) -> Schema:
        """Return the JSON Schema of the value, with the description of the key."""
        value = {} if self.type is None else self.type.schema()
        if not (self.required or self.filled):
            value = {"anyOf": [value, {"type": "null"}]} if value else {}
        notes = {Use.LATER: "Not supported by this version.", Use.IGNORED: f"No effect: {self.why}."}
        doc = " ".join(part for part in (self.doc, notes.get(self.use, "")) if part)
        default = {} if self.default is None else {"default": self.default}
        ignored = {"deprecated": True} if self.use is Use.IGNORED else {}
        return {"description": doc, **value, **default, **ignored}


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping with the keys of a table.

    `rest` is the type of other keys, which the file itself defines. `elsewhere` names the section in which a key
    belongs that is written one level too high.
    """

    fields: Mapping[str, Field]
    rest: ValueType | None = None
    expected: str = "a mapping"
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def read(self, node: YamlNode, at: KeyPath) -> Values:
        """Return the values of the section.

        Unknown keys and missing required ones are reported to `at`.
        """
        if not isinstance(node, MappingNode):
            raise invalid(node, at, self.expected)
        found: dict[str, FieldValue] = {}
        rest: dict[str, FieldValue] = {}
        guessed: set[str] = set()
        for key, value in node.pairs:
            row = self.fields.get(key.text)
            if row is not None:
                one = row.read(key, value, at.inside(key.text))
                found.update({} if one is None else {key.text: one})
            elif self.rest is not None:
                rest[key.text] = FieldValue(read_or_report(self.rest, value, at.inside(key.text)), value.mark, key.mark)
            else:
                guessed.add(self.unknown(key.text, key.mark, at.out))
        values = Values(node.mark, found, rest, frozenset(guessed))
        self._require(values, at)
        return values

    def unknown(
        self, key: str, mark: Mark, out: Diagnostics, *, more: tuple[str, ...] = (), otherwise: str | None = None
    ) -> str:
        """Report an unknown key, and return the most similar key or an empty text.

        `more` are keys that the file itself defines; `otherwise` is the hint if no key is similar.
        """
        names = [name for name, row in self.fields.items() if row.use is not Use.REFUSED] + list(more)
        near = difflib.get_close_matches(key, names, n=1)
        if key in self.elsewhere:
            near, hint = [], f"move it into `{self.elsewhere[key]}`"
        elif near:
            hint = f"did you mean `{near[0]}`?"
        else:
            short = len(names) <= 12
            listed = f"the keys are {', '.join(names)}" if short else "`nvlaunch schema task` lists the keys"
            hint = otherwise or listed
        out.mistake(mark, f"unknown key `{key}`", hint)
        return near[0] if near else ""

    def _require(self, values: Values, at: KeyPath) -> None:
        for row in self.fields.values():
            if row.required and not values.has(row.name):
                what = f"`{row.name}` is missing" + (f" in `{at.name}`" if at.name else "")
                at.out.mistake(values.mark, what, f"add `{row.name}`: {row.doc[:1].lower()}{row.doc[1:].rstrip('.')}")

    def schema(self) -> Schema:
        """Return an object with these keys and no others."""
        shown = {name: row.schema() for name, row in self.fields.items() if row.use is not Use.REFUSED}
        required = [row.name for row in self.fields.values() if row.required]
        rest: object = False if self.rest is None else self.rest.schema()
        schema: dict[str, object] = {"type": "object", "properties": shown, "additionalProperties": rest}
        return {**schema, "required": required} if required else schema


@dataclass(frozen=True, slots=True)
class ScalarOrSection:
    """One value, or a mapping that says it in parts."""

    scalar: ValueType
    section: Section
    expected: str

    def read(self, node: YamlNode, at: KeyPath) -> object:
        """Return the value, or the values of the mapping."""
        if isinstance(node, MappingNode):
            return self.section.read(node, at)
        if isinstance(node, ScalarNode):
            return self.scalar.read(node, at)
        raise invalid(node, at, self.expected)

    def schema(self) -> Schema:
        """Return both forms."""
        return {"anyOf": [self.scalar.schema(), self.section.schema()]}


def section(*fields: Field, rest: ValueType | None = None, expected: str = "a mapping") -> Section:
    """Return the section of these fields; keys one level too high are recognised."""
    elsewhere = {
        inner: row.name
        for row in fields
        if isinstance(row.type, Section)
        for inner, deep in row.type.fields.items()
        if deep.use is not Use.REFUSED
    }
    return Section({row.name: row for row in fields}, rest, expected, elsewhere)
