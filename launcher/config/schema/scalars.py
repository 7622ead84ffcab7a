"""Types of single values: text, numbers, booleans, durations, choices."""

import difflib
import math
import re
from dataclasses import dataclass

from launcher.config.schema.value_types import Schema, invalid
from launcher.config.yaml.diagnostics import KeyPath
from launcher.config.yaml.nodes import ScalarKind, ScalarNode, YamlNode
from launcher.core.model.text import seconds_of

MAX_NUMBER = 1_000_000_000
"""The bound of numbers that have no other: nothing of a task or a fleet is larger, and all can be computed with."""

MAX_S = 3650 * 86_400
"""The longest duration (s): ten years. A time that is computed from it is still a date."""

SHORT_S = 600
"""Below this, a long duration without a unit was probably meant in other units (s)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Text, of a pattern if one is given.

    With `numbers` an unquoted number is accepted as it is written.
    """

    expected: str = "text"
    pattern: str | None = None
    numbers: bool = False
    hint: str | None = None

    def read(self, node: YamlNode, at: KeyPath) -> str:
        """Return the text."""
        if not isinstance(node, ScalarNode) or node.kind is ScalarKind.NULL:
            raise invalid(node, at, self.expected)
        if (
            node.kind is not ScalarKind.TEXT
            and not node.quoted
            and not (self.numbers and node.kind is not ScalarKind.BOOLEAN)
        ):
            raise invalid(node, at, self.expected, f'quote it if it is text: "{node.text}"')
        if self.pattern is not None and not re.fullmatch(self.pattern, node.text):
            raise invalid(node, at, self.expected, self.hint)
        return node.text

    def schema(self) -> Schema:
        """Return a string, or a number if those are accepted."""
        kind: object = ["string", "number"] if self.numbers else "string"
        return {"type": kind, "pattern": f"^({self.pattern})$"} if self.pattern else {"type": kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer:
    """A whole number within bounds, in decimal and without quotes.

    Octal, hexadecimal and base 60 are refused.
    """

    low: int = 0
    high: int

    @property
    def expected(self) -> str:
        """Return the range in words."""
        return f"a whole number from {self.low} to {self.high}"

    def read(self, node: YamlNode, at: KeyPath) -> int:
        """Return the number."""
        if not isinstance(node, ScalarNode) or not re.fullmatch(r"[-+]?(0|[1-9][0-9_]{0,17})", node.text):
            raise invalid(node, at, self.expected)
        if node.quoted:
            raise invalid(node, at, self.expected, "remove the quotes")
        number = int(node.text.replace("_", ""))
        if not self.low <= number <= self.high:
            raise invalid(node, at, self.expected)
        return number

    def schema(self) -> Schema:
        """Return an integer with its bounds."""
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number of at least `low`, and at most `high`.

    With `endless` also `inf`, with `above` not `low` itself.
    """

    endless: bool = False
    above: bool = False
    low: float = 0
    high: float = MAX_NUMBER

    @property
    def expected(self) -> str:
        """Return the range in words."""
        low = f"a number {'above' if self.above else 'of at least'} {self.low:g}"
        return f"{low}, at most {self.high:.0f}" + (", or `inf`" if self.endless else "")

    def read(self, node: YamlNode, at: KeyPath) -> float:
        """Return the number; `1e3` is accepted, though it is text in YAML 1.1."""
        number = _decimal(node)
        if number is None or number < self.low or (self.above and number == self.low):
            raise invalid(node, at, self.expected)
        if number > self.high and not (math.isinf(number) and self.endless):
            raise invalid(node, at, self.expected)
        return number

    def schema(self) -> Schema:
        """Return a number with its bounds."""
        low = "exclusiveMinimum" if self.above else "minimum"
        number: Schema = {"type": "number", low: self.low, "maximum": self.high}
        return {"anyOf": [number, {"enum": ["inf"]}]} if self.endless else number


def _decimal(node: YamlNode) -> float | None:
    if (
        not isinstance(node, ScalarNode)
        or node.quoted
        or not re.fullmatch(r"[-+]?(\.?inf|[0-9.]+(e[-+]?\d+)?)", node.text)
    ):
        return None
    try:
        return float(node.text.replace(".inf", "inf"))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Boolean:
    """True or false, in any spelling of YAML 1.1."""

    expected: str = "true or false"

    def read(self, node: YamlNode, at: KeyPath) -> bool:
        """Return the boolean."""
        if isinstance(node, ScalarNode) and node.kind is ScalarKind.BOOLEAN and not node.quoted:
            return node.text.lower() in {"true", "yes", "on"}
        raise invalid(node, at, self.expected)

    def schema(self) -> Schema:
        """Return a boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """A duration in seconds: `90`, `90s`, `30m`, `72h`, `2d`, `H:MM:SS` or `D-H:MM:SS`.

    With `above` not 0. With `long` a small number without a unit is warned about: Slurm's `72` is 72 minutes.
    """

    above: bool = False
    long: bool = False

    @property
    def expected(self) -> str:
        """Return examples."""
        low = " above 0" if self.above else ""
        return f"a duration{low} such as `90`, `30m`, `72h` or `12:30:00`, at most `{MAX_S // 86_400}d`"

    def read(self, node: YamlNode, at: KeyPath) -> float:
        """Return the seconds."""
        seconds = seconds_of(node.text.strip()) if isinstance(node, ScalarNode) else None
        if seconds is None or seconds > MAX_S or (self.above and seconds == 0):
            raise invalid(node, at, self.expected)
        if self.long and seconds < SHORT_S and isinstance(node, ScalarNode) and node.text.strip().isdecimal():
            text = node.text.strip()
            at.out.warn(node.mark, f"`{at.name}: {text}` is {text} seconds", f"write `{text}s`, `{text}m` or `{text}h`")
        return seconds

    def schema(self) -> Schema:
        """Return a number of seconds, or text with a unit."""
        pattern = r"^(\d+(\.\d+)?\s*[smhd]?|(\d+-)?\d+:[0-5]\d:[0-5]\d)$"
        return {
            "anyOf": [
                {"type": "number", ("exclusiveMinimum" if self.above else "minimum"): 0, "maximum": MAX_S},
                {"type": "string", "pattern": pattern},
            ]
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of a few words.

    `prefix` is optional in the file and is removed: `SIGTERM` is `TERM`.
    """

    choices: tuple[str, ...]
    prefix: str = ""

    @property
    def expected(self) -> str:
        """Return the choices."""
        return " or ".join([", ".join(f"`{one}`" for one in self.choices[:-1]), f"`{self.choices[-1]}`"])

    def read(self, node: YamlNode, at: KeyPath) -> str:
        """Return the chosen word."""
        if isinstance(node, ScalarNode):
            word = node.text.removeprefix(self.prefix)
            if word in self.choices:
                return word
            near = difflib.get_close_matches(word, self.choices, n=1)
            raise invalid(node, at, self.expected, f"did you mean `{near[0]}`?" if near else None)
        raise invalid(node, at, self.expected)

    def schema(self) -> Schema:
        """Return an enumeration."""
        longer = [self.prefix + word for word in self.choices] if self.prefix else []
        return {"enum": [*self.choices, *longer]}
