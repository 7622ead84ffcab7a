"""Tables of fields: each row names a key once, for the parser, for the JSON Schema and for its documentation."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from launcher.config.schema.shapes import Schema, Shape, attempt, wrong
from launcher.config.yaml.nodes import Kind, Mark, Node, Pairs, Scalar
from launcher.config.yaml.reading import Found, Reading, Spot, Values


class Use(Enum):
    """What becomes of a key that stands in a file."""

    EXECUTED = "executed"
    LATER = "checked in full, then refused by name unless it changes nothing: a later version executes it"
    IGNORED = "accepted with a warning: SkyPilot's, and without meaning here"
    REFUSED = "refused with the reason and what to use instead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One key. `why` is the reason of IGNORED and REFUSED, `instead` the hint; a key with `value` may not be empty.

    `default` is what stands when the key is left out, as a user would write it.
    """

    name: str
    doc: str
    shape: Shape | None = None
    default: object = None
    use: Use = Use.EXECUTED
    why: str = ""
    instead: str | None = None
    required: bool = False
    value: bool = False

    def read(self, key: Scalar, node: Node, at: Spot) -> Found | None:
        """Return the value of this key; None when it counts as left out."""
        name, out = at.name, at.out
        if self.use in (Use.REFUSED, Use.IGNORED) and isinstance(node, Scalar) and node.kind is Kind.NOTHING:
            return None  # to SkyPilot a null is what is left out
        if self.use is Use.REFUSED:
            out.mistake(key.mark, f"`{name}` is not supported: {self.why}", self.instead)
            return None
        if self.use is Use.IGNORED or self.shape is None:
            out.warn(key.mark, f"`{name}` has no effect: {self.why}", self.instead)
            return None
        if isinstance(node, Scalar) and node.kind is Kind.NOTHING:
            return self._empty(key, node, at)
        value = attempt(self.shape, node, at)
        if self.use is Use.LATER and value is not None and value != self.default:
            shown = f"{name}: {node.text}" if self.default is not None and isinstance(node, Scalar) else name
            out.mistake(key.mark, f"`{shown}` is not supported by this version", self.instead or "remove it for now")
        return Found(value, node.mark, key.mark)

    def _empty(self, key: Scalar, node: Node, at: Spot) -> Found | None:
        if not (self.required or self.value):
            return None
        at.out.mistake(key.mark, f"`{at.name}` is empty", "give it a value, or remove the line")
        return Found(None, node.mark, key.mark)

    def schema(self) -> Schema:
        """Return the JSON Schema of the value, with what there is to know of the key."""
        shape = {} if self.shape is None else self.shape.schema()
        if not (self.required or self.value):
            shape = {"anyOf": [shape, {"type": "null"}]} if shape else {}
        notes = {Use.LATER: "Not supported by this version.", Use.IGNORED: f"No effect: {self.why}."}
        doc = " ".join(part for part in (self.doc, notes.get(self.use, "")) if part)
        default = {} if self.default is None else {"default": self.default}
        ignored = {"deprecated": True} if self.use is Use.IGNORED else {}
        return {"description": doc, **shape, **default, **ignored}


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping whose keys are named by a table; `rest` reads keys that only the file itself can explain."""

    fields: Mapping[str, Field]
    rest: Shape | None = None
    word: str = "a mapping"
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def read(self, node: Node, at: Spot) -> Values:
        """Return the values of the section, noting unknown keys and required ones that are missing."""
        if not isinstance(node, Pairs):
            raise wrong(node, at, self.word)
        found: dict[str, Found] = {}
        rest: dict[str, Found] = {}
        guessed: set[str] = set()
        for key, value in node.pairs:
            row = self.fields.get(key.text)
            if row is not None:
                one = row.read(key, value, at.inside(key.text))
                found.update({} if one is None else {key.text: one})
            elif self.rest is not None:
                rest[key.text] = Found(attempt(self.rest, value, at.inside(key.text)), value.mark, key.mark)
            else:
                guessed.add(self.unknown(key.text, key.mark, at.out))
        values = Values(node.mark, found, rest, frozenset(guessed))
        self._require(values, at)
        return values

    def unknown(
        self, key: str, mark: Mark, out: Reading, *, more: tuple[str, ...] = (), otherwise: str | None = None
    ) -> str:
        """Note an unknown key, and answer the key that was most likely meant, or an empty text.

        `more` are keys that the file itself adds; `otherwise` is the hint when nothing is near.
        """
        names = [name for name, row in self.fields.items() if row.use is not Use.REFUSED] + list(more)
        near = difflib.get_close_matches(key, names, n=1)
        if key in self.elsewhere:
            near, hint = [], f"it belongs under `{self.elsewhere[key]}`"
        elif near:
            hint = f"did you mean `{near[0]}`?"
        else:
            short = len(names) <= 12
            listed = f"known are {', '.join(names)}" if short else "`nvlaunch schema task` lists the keys"
            hint = otherwise or listed
        out.mistake(mark, f"unknown key `{key}`", hint)
        return near[0] if near else ""

    def _require(self, values: Values, at: Spot) -> None:
        for row in self.fields.values():
            if row.required and not values.has(row.name):
                owner = f"`{at.name}` needs `{row.name}`" if at.name else f"`{row.name}` is missing"
                at.out.mistake(values.mark, owner, f"add `{row.name}`: {row.doc[:1].lower()}{row.doc[1:].rstrip('.')}")

    def schema(self) -> Schema:
        """Return an object that has these keys and no others."""
        shown = {name: row.schema() for name, row in self.fields.items() if row.use is not Use.REFUSED}
        required = [row.name for row in self.fields.values() if row.required]
        rest: object = False if self.rest is None else self.rest.schema()
        schema: dict[str, object] = {"type": "object", "properties": shown, "additionalProperties": rest}
        return {**schema, "required": required} if required else schema


def section(*fields: Field, rest: Shape | None = None, word: str = "a mapping") -> Section:
    """Return the section of these fields; it knows where a key belongs that is written one level too high."""
    elsewhere = {
        inner: row.name
        for row in fields
        if isinstance(row.shape, Section)
        for inner, deep in row.shape.fields.items()
        if deep.use is not Use.REFUSED
    }
    return Section({row.name: row for row in fields}, rest, word, elsewhere)
