"""Types of values that only tasks have: accelerators and scripts."""

import math
import re
from dataclasses import dataclass

from launcher.config.schema.value_types import InvalidValueError, Schema, invalid
from launcher.config.yaml.diagnostics import KeyPath
from launcher.config.yaml.nodes import MappingNode, Mark, ScalarKind, ScalarNode, SequenceNode, YamlNode, describe


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A kind of accelerator, and how many of it each node must have."""

    kind: str
    count: int


NO_GPUS = Accelerator("", 0)
MAX_COUNT = 1024
"""The most GPUs of a node, as in an inventory."""

_KIND = r"[A-Za-z0-9][A-Za-z0-9._+-]*"


@dataclass(frozen=True, slots=True)
class Accelerators:
    """`GB300:4`, `GB300` (one of it), or `{GB300: 4}`.

    A list, a set or a mapping of several means any of them, in order. A part of a GPU is rounded up, with a warning.
    """

    expected: str = "an accelerator and its count such as `GB300:4`"

    def read(self, node: YamlNode, at: KeyPath) -> tuple[Accelerator, ...]:
        """Return each kind that is named, in the order of the file."""
        return tuple(dict.fromkeys(self._one(*spelled, at) for spelled in self._spelled(node, at)))

    def _one(self, kind: str, count: str, mark: Mark, at: KeyPath) -> Accelerator:
        if not re.fullmatch(_KIND, kind):
            raise InvalidValueError(mark, f"`{at.name}` must be {self.expected}, not `{kind}`")
        return self._counted(kind, count, mark, at)

    def _spelled(self, node: YamlNode, at: KeyPath) -> list[tuple[str, str, Mark]]:
        if isinstance(node, SequenceNode) and node.items:
            return [one for item in node.items for one in self._spelled(item, at)]
        if isinstance(node, MappingNode) and node.pairs:
            return [self._pair(key, value) for key, value in node.pairs]
        if not isinstance(node, ScalarNode) or node.kind is ScalarKind.NULL:
            raise invalid(node, at, self.expected)
        kind, colon, count = node.text.partition(":")
        return [(kind.strip(), count.strip() if colon else "1", node.mark)]

    @staticmethod
    def _pair(key: ScalarNode, value: YamlNode) -> tuple[str, str, Mark]:
        # `{A100, V100:2}` is a set in YAML: a count is part of the key, and the value is null.
        if isinstance(value, ScalarNode) and value.kind is ScalarKind.NULL:
            kind, colon, count = key.text.partition(":")
            return kind, count if colon else "1", key.mark
        return key.text, value.text if isinstance(value, ScalarNode) else describe(value), value.mark

    @staticmethod
    def _counted(kind: str, count: str, mark: Mark, at: KeyPath) -> Accelerator:
        if re.fullmatch(r"[1-9]\d{0,3}(\.0+)?", count) and float(count) <= MAX_COUNT:
            return Accelerator(kind, int(float(count)))
        if re.fullmatch(r"\d{0,4}\.\d{1,9}", count) and 0 < float(count) <= MAX_COUNT:
            whole = math.ceil(float(count))
            hint = "to share a node, use `groups:` with `nodes_of`, and whole GPUs each"
            at.out.warn(mark, f"`{at.name}`: `{kind}:{count}` is rounded up to {whole}: a rank has whole GPUs", hint)
            return Accelerator(kind, whole)
        shown = f"not `{count[:40]}`" if count else "but is missing"
        raise InvalidValueError(
            mark,
            f"the count of `{at.name}` must be a whole number from 1 to {MAX_COUNT}, {shown}",
            f"write, for example, `{kind}:4`",
        )

    def schema(self) -> Schema:
        """Return the spellings."""
        text = {"type": "string", "pattern": rf"^{_KIND}(:\s*(\d{{1,4}}|\d{{0,4}}\.\d{{1,9}}))?$"}
        count = {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": MAX_COUNT}
        counted = {"type": "object", "minProperties": 1, "additionalProperties": count}
        return {"anyOf": [text, counted, {"type": "array", "items": {"anyOf": [text, counted]}, "minItems": 1}]}


@dataclass(frozen=True, slots=True)
class Script:
    """A shell script. It is not changed: `${VAR}` is expanded by the shell."""

    expected: str = "a shell script"

    def read(self, node: YamlNode, at: KeyPath) -> str:
        """Return the script."""
        if isinstance(node, SequenceNode):
            raise invalid(node, at, self.expected, f"write the commands as one text below `{at.name}: |`")
        if not isinstance(node, ScalarNode) or (node.kind is not ScalarKind.TEXT and not node.quoted):
            quoted = f'quote it if it is a command: "{node.text}"' if isinstance(node, ScalarNode) else None
            raise invalid(node, at, self.expected, quoted)
        if not node.text.strip():
            raise InvalidValueError(node.mark, f"`{at.name}` is empty", "write the commands to run")
        return node.text

    def schema(self) -> Schema:
        """Return a string that is not empty."""
        return {"type": "string", "minLength": 1}
