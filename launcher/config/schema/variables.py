"""Values of environment variables, with a warning if YAML changes the text."""

from dataclasses import dataclass
from enum import Enum

from launcher.config.schema.containers import MapOf
from launcher.config.schema.patterns import env_name
from launcher.config.schema.value_types import InvalidValueError, Schema, invalid
from launcher.config.yaml.diagnostics import KeyPath
from launcher.config.yaml.document import python_text
from launcher.config.yaml.nodes import ScalarKind, ScalarNode, YamlNode

# Linux passes no longer string to a program (MAX_ARG_STRLEN, execve(2)); the difference leaves room for the name.
MAX_VALUE = 131_072 - 1_072
MISFIT_HINT = "put the value in a file, and pass its path"


def misfit(value: str) -> str | None:
    """Return why a value cannot be that of a variable; None if it can.

    The text is the end of a sentence.
    """
    if "\0" in value:
        return "contains a NUL"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "is not UTF-8 text"
    return f"has {size:,} bytes; the limit is {MAX_VALUE:,}" if size > MAX_VALUE else None


class Ask(Enum):
    """The value of a variable that the file leaves to the command line."""

    ASK = "must be given on the command line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """The value of an environment variable.

    It is a scalar as text, or null if the command line must give it. The value of a secret is never shown, not even in
    a warning.
    """

    expected: str = "text, a number, true or false, or null"
    secret: bool = False

    def read(self, node: YamlNode, at: KeyPath) -> str | Ask:
        """Return the text; a warning if YAML reads another text than is written."""
        if not isinstance(node, ScalarNode):
            raise invalid(node, at, self.expected, "a variable is one text; write lists and mappings as JSON in quotes")
        if node.kind is ScalarKind.NULL:
            return Ask.ASK
        text = python_text(node)
        if why := misfit(text):
            raise InvalidValueError(node.mark, f"the value of `{at.name}` {why}", MISFIT_HINT)
        if text.lower() != node.text.lower() and not self.secret:
            hint = f'quote it to keep it as written: "{node.text}"'
            at.out.warn(node.mark, f"YAML reads `{at.name}: {node.text}` as `{text}`", hint)
        return text

    def schema(self) -> Schema:
        """Return the scalar types."""
        return {"type": ["string", "number", "boolean", "null"]}


variables = MapOf(item=Variable(), keys=env_name, expected="a mapping of names to values")
