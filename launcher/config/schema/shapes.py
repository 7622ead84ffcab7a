"""The shapes a value can have. Each reads a node, and says the same as JSON Schema: one place for both."""

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from launcher.config.yaml.nodes import Items, Kind, Mark, Node, Pairs, Scalar, describe
from launcher.config.yaml.reading import Found, Spot

Schema = Mapping[str, object]


class Shape(Protocol):
    """What a value must look like."""

    @property
    def word(self) -> str:
        """The words after "must be"."""

    def read(self, node: Node, at: Spot) -> object:
        """Return the value of a node; raises WrongError, and notes what is wrong inside it."""

    def schema(self) -> Schema:
        """Return the JSON Schema of this shape."""


class WrongError(Exception):
    """One value is not of its shape. Raised by `read`, noted by `attempt`, so that the rest of the file is read too."""

    def __init__(self, mark: Mark, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.mark = mark
        self.what = what
        self.hint = hint


def wrong(node: Node, at: Spot, word: str, hint: str | None = None) -> WrongError:
    """Return the error for a value that is not what it must be."""
    return WrongError(node.mark, f"`{at.name}` must be {word}, not {describe(node)}", hint)


def attempt(shape: "Shape", node: Node, at: Spot) -> object | None:
    """Return the value of a node; None for one that is wrong, which is noted."""
    try:
        return shape.read(node, at)
    except WrongError as error:
        at.out.mistake(error.mark, error.what, error.hint)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Text, perhaps of a pattern. `numbers` takes unquoted numbers as they are written, for names people count with."""

    word: str = "text"
    pattern: str | None = None
    numbers: bool = False
    hint: str | None = None

    def read(self, node: Node, at: Spot) -> str:
        """Return the text."""
        if not isinstance(node, Scalar) or node.kind is Kind.NOTHING:
            raise wrong(node, at, self.word)
        if node.kind is not Kind.TEXT and not node.quoted and not (self.numbers and node.kind is not Kind.TRUTH):
            raise wrong(node, at, self.word, f'quote it if it is meant as text: "{node.text}"')
        if self.pattern is not None and not re.fullmatch(self.pattern, node.text):
            raise wrong(node, at, self.word, self.hint)
        return node.text

    def schema(self) -> Schema:
        """Return a string, or a number where those are taken as written."""
        kind: object = ["string", "number"] if self.numbers else "string"
        return {"type": kind, "pattern": f"^({self.pattern})$"} if self.pattern else {"type": kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole number within bounds, written plainly: no quotes, and none of YAML's octal, hex or base 60."""

    low: int = 0
    high: int | None = None

    @property
    def word(self) -> str:
        """The words for the bounds."""
        if self.high is not None:
            return f"a whole number from {self.low} to {self.high}"
        return f"a whole number of at least {self.low}"

    def read(self, node: Node, at: Spot) -> int:
        """Return the number."""
        if not isinstance(node, Scalar) or not re.fullmatch(r"[-+]?(0|[1-9][0-9_]{0,17})", node.text):
            raise wrong(node, at, self.word)
        if node.quoted:
            raise wrong(node, at, self.word, "remove the quotes")
        number = int(node.text.replace("_", ""))
        if number < self.low or (self.high is not None and number > self.high):
            raise wrong(node, at, self.word)
        return number

    def schema(self) -> Schema:
        """Return an integer with its bounds."""
        top = {} if self.high is None else {"maximum": self.high}
        return {"type": "integer", "minimum": self.low, **top}


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number of at least zero; `endless` also takes `inf`, and `above` refuses zero itself."""

    endless: bool = False
    above: bool = False

    @property
    def word(self) -> str:
        """The words for the bounds."""
        return ("a number above 0" if self.above else "a number of at least 0") + (" or `inf`" if self.endless else "")

    def read(self, node: Node, at: Spot) -> float:
        """Return the number; `1e3` is one, though YAML 1.1 takes it for text."""
        number = _decimal(node)
        if number is None or number < 0 or (self.above and number == 0) or (math.isinf(number) and not self.endless):
            raise wrong(node, at, self.word)
        return number

    def schema(self) -> Schema:
        """Return a number with its bound."""
        number: Schema = {"type": "number", ("exclusiveMinimum" if self.above else "minimum"): 0}
        return {"anyOf": [number, {"enum": ["inf"]}]} if self.endless else number


def _decimal(node: Node) -> float | None:
    if not isinstance(node, Scalar) or node.quoted or not re.fullmatch(r"[-+]?(\.?inf|[0-9.]+(e[-+]?\d+)?)", node.text):
        return None
    try:
        return float(node.text.replace(".inf", "inf"))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Truth:
    """True or false, in any of YAML 1.1's words for them."""

    word: str = "true or false"

    def read(self, node: Node, at: Spot) -> bool:
        """Return the truth value."""
        if isinstance(node, Scalar) and node.kind is Kind.TRUTH and not node.quoted:
            return node.text.lower() in {"true", "yes", "on"}
        raise wrong(node, at, self.word)

    def schema(self) -> Schema:
        """Return a boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """A length of time, read as seconds: `90`, `90s`, `30m`, `72h`, `2d` or `H:MM:SS`; `above` refuses none at all."""

    above: bool = False

    @property
    def word(self) -> str:
        """The words for what it may be."""
        return f"a length of time{' above 0' if self.above else ''} such as `90`, `30m`, `72h` or `12:30:00`"

    def read(self, node: Node, at: Spot) -> float:
        """Return the seconds."""
        seconds = self._seconds(node.text.strip()) if isinstance(node, Scalar) else None
        if seconds is None or (self.above and seconds == 0):
            raise wrong(node, at, self.word)
        return seconds

    @staticmethod
    def _seconds(text: str) -> float | None:
        if match := re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhd]?)", text):
            return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]
        if match := re.fullmatch(r"(\d{1,5}):([0-5]\d):([0-5]\d)", text):
            return float(int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3]))
        return None

    def schema(self) -> Schema:
        """Return a number of seconds, or text with a unit."""
        pattern = r"^(\d+(\.\d+)?\s*[smhd]?|\d+:[0-5]\d:[0-5]\d)$"
        return {
            "anyOf": [
                {"type": "number", ("exclusiveMinimum" if self.above else "minimum"): 0},
                {"type": "string", "pattern": pattern},
            ]
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of a few words; `prefix` may stand before each and is left off (`SIGTERM` is `TERM`)."""

    message: tuple[str, ...]
    prefix: str = ""

    @property
    def word(self) -> str:
        """The words to choose from."""
        return " or ".join([", ".join(f"`{one}`" for one in self.message[:-1]), f"`{self.message[-1]}`"])

    def read(self, node: Node, at: Spot) -> str:
        """Return the word chosen."""
        if isinstance(node, Scalar):
            word = node.text.removeprefix(self.prefix)
            if word in self.message:
                return word
            near = difflib.get_close_matches(word, self.message, n=1)
            raise wrong(node, at, self.word, f"did you mean `{near[0]}`?" if near else None)
        raise wrong(node, at, self.word)

    def schema(self) -> Schema:
        """Return an enumeration."""
        longer = [self.prefix + word for word in self.message] if self.prefix else []
        return {"enum": [*self.message, *longer]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """A list, not empty where `filled`; `single` also takes one value that is not in a list."""

    item: Shape
    word: str = "a list"
    single: bool = False
    filled: bool = False

    def read(self, node: Node, at: Spot) -> tuple[object, ...]:
        """Return the items that are right."""
        if self.single and isinstance(node, Scalar) and node.kind is not Kind.NOTHING:
            return (self.item.read(node, at),)
        if not isinstance(node, Items):
            raise wrong(node, at, self.word)
        if self.filled and not node.items:
            raise WrongError(node.mark, f"`{at.name}` is empty", f"it must be {self.word}")
        read = [attempt(self.item, item, Spot(f"{at.name}[{index}]", at.out)) for index, item in enumerate(node.items)]
        return tuple(value for value in read if value is not None)

    def schema(self) -> Schema:
        """Return an array, or its item alone."""
        items = self.item.schema()
        array: Schema = {"type": "array", "items": items, **({"minItems": 1} if self.filled else {})}
        return {"anyOf": [items, array]} if self.single else array


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOf:
    """A mapping of free keys of one pattern to values of one shape."""

    item: Shape
    keys: Text
    word: str = "a mapping"
    filled: bool = False
    hint: str | None = None

    def read(self, node: Node, at: Spot) -> dict[str, Found]:
        """Return each right value by its key."""
        if not isinstance(node, Pairs):
            raise wrong(node, at, self.word, self.hint)
        if self.filled and not node.pairs:
            raise WrongError(node.mark, f"`{at.name}` is empty", f"it must be {self.word}")
        found: dict[str, Found] = {}
        for key, item in node.pairs:
            if self.keys.pattern and not re.fullmatch(self.keys.pattern, key.text):
                at.out.mistake(key.mark, f"`{key.text}` cannot be {self.keys.word}", self.keys.hint)
                continue
            value = attempt(self.item, item, at.inside(key.text))
            if value is not None:
                found[key.text] = Found(value, item.mark, key.mark)
        return found

    def schema(self) -> Schema:
        """Return an object with a pattern for its keys."""
        keys = {"propertyNames": {"pattern": f"^({self.keys.pattern})$"}} if self.keys.pattern else {}
        filled = {"minProperties": 1} if self.filled else {}
        return {"type": "object", "additionalProperties": self.item.schema(), **keys, **filled}
