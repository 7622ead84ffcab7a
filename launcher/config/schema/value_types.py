"""Types of values. Each reads a node, and describes itself as JSON Schema."""

from collections.abc import Mapping
from typing import Protocol

from launcher.config.yaml.diagnostics import KeyPath
from launcher.config.yaml.nodes import Mark, YamlNode, describe

Schema = Mapping[str, object]


class ValueType(Protocol):
    """The type of a value."""

    @property
    def expected(self) -> str:
        """Return what follows "must be" in messages."""

    def read(self, node: YamlNode, at: KeyPath) -> object:
        """Return the value of a node; InvalidValueError if it is wrong.

        Mistakes inside it are reported to `at`.
        """

    def schema(self) -> Schema:
        """Return the JSON Schema of this type."""


class InvalidValueError(Exception):
    """A value that is not of its type.

    `read` raises it; `read_or_report` reports it and reads on.
    """

    def __init__(self, mark: Mark, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.mark = mark
        self.what = what
        self.hint = hint


def invalid(node: YamlNode, at: KeyPath, expected: str, hint: str | None = None) -> InvalidValueError:
    """Return the error for a value of another type than expected."""
    return InvalidValueError(node.mark, f"`{at.name}` must be {expected}, not {describe(node)}", hint)


def read_or_report(kind: ValueType, node: YamlNode, at: KeyPath) -> object | None:
    """Return the value of a node; None if it is wrong, which is reported to `at`."""
    try:
        return kind.read(node, at)
    except InvalidValueError as error:
        at.out.mistake(error.mark, error.what, error.hint)
        return None
