"""Shapes that only tasks and environments have: variables, and accelerators in SkyPilot's four spellings."""

import re
from dataclasses import dataclass
from enum import Enum

from launcher.config.schema.patterns import env_name
from launcher.config.schema.shapes import MapOf, Schema, WrongError, wrong
from launcher.config.yaml.document import python_text
from launcher.config.yaml.nodes import Items, Kind, Mark, Node, Pairs, Scalar, describe
from launcher.config.yaml.reading import Spot

# Linux hands no longer string to a program (MAX_ARG_STRLEN, execve(2)); the rest is room for the name.
MAX_VALUE = 131_072 - 1_072
MISFIT_HINT = "put it in a file, and give the path"


def misfit(value: str) -> str | None:
    """Return why a value cannot be that of an environment variable, as the end of a sentence; None where it can."""
    if "\0" in value:
        return "holds a NUL"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "is not UTF-8 text"
    return f"has {size:,} bytes, and a variable may have {MAX_VALUE:,}" if size > MAX_VALUE else None


class Ask(Enum):
    """A variable that the file leaves to whoever starts the task."""

    ASK = "must be given on the command line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """The value of an environment variable: any scalar as text, or null for one that must be given.

    A secret's is never shown, not even in a warning.
    """

    word: str = "text, a number, true or false, or null"
    secret: bool = False

    def read(self, node: Node, at: Spot) -> str | Ask:
        """Return the text; a warning tells where YAML makes another text of it than is written."""
        if not isinstance(node, Scalar):
            raise wrong(node, at, self.word, "a variable holds one text; write it as JSON in quotes")
        if node.kind is Kind.NOTHING:
            return Ask.ASK
        text = python_text(node)
        if why := misfit(text):
            raise WrongError(node.mark, f"the value of `{at.name}` {why}", MISFIT_HINT)
        if text.lower() != node.text.lower() and not self.secret:
            hint = f'quote it to keep it as it is written: "{node.text}"'
            at.out.warn(node.mark, f"`{at.name}: {node.text}` becomes `{text}`, as YAML reads it", hint)
        return text

    def schema(self) -> Schema:
        """Return the scalars."""
        return {"type": ["string", "number", "boolean", "null"]}


variables = MapOf(item=Variable(), keys=env_name, word="a mapping of names to values")


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A kind of accelerator, and how many of it each node must have."""

    kind: str
    count: int


NO_GPUS = Accelerator("", 0)


_KIND = r"[A-Za-z0-9][A-Za-z0-9._+-]*"


@dataclass(frozen=True, slots=True)
class Accelerators:
    """`GB300:4`, `GB300` (one), `{GB300: 4}`; several in a list or a mapping are to choose from, the first first."""

    word: str = "an accelerator and its count such as `GB300:4`"

    def read(self, node: Node, at: Spot) -> tuple[Accelerator, ...]:
        """Return each kind that is named, in the order of the file."""
        return tuple(dict.fromkeys(self._one(*spelled, at) for spelled in self._spelled(node, at)))

    def _one(self, kind: str, count: str, mark: Mark, at: Spot) -> Accelerator:
        if not re.fullmatch(_KIND, kind):
            raise WrongError(mark, f"`{at.name}` must be {self.word}, not `{kind}`")
        return self._counted(kind, count, at.name, mark)

    def _spelled(self, node: Node, at: Spot) -> list[tuple[str, str, Mark]]:
        if isinstance(node, Items) and node.items:
            return [one for item in node.items for one in self._spelled(item, at)]
        if isinstance(node, Pairs) and node.pairs:
            return [self._pair(key, value) for key, value in node.pairs]
        if not isinstance(node, Scalar) or node.kind is Kind.NOTHING:
            raise wrong(node, at, self.word)
        kind, colon, count = node.text.partition(":")
        return [(kind.strip(), count.strip() if colon else "1", node.mark)]

    @staticmethod
    def _pair(key: Scalar, value: Node) -> tuple[str, str, Mark]:
        # `{A100:1, V100:1}` is a set to YAML: the count is inside the key, and the value is null.
        if isinstance(value, Scalar) and value.kind is Kind.NOTHING and ":" in key.text:
            kind, _, count = key.text.partition(":")
            return kind, count, key.mark
        return key.text, value.text if isinstance(value, Scalar) else describe(value), value.mark

    @staticmethod
    def _counted(kind: str, count: str, name: str, mark: Mark) -> Accelerator:
        if re.fullmatch(r"[1-9]\d{0,3}(\.0+)?", count):
            return Accelerator(kind, int(float(count)))
        if re.fullmatch(r"\d+\.\d+", count) and float(count) > 0:
            hint = f"ask for `{kind}:1`; roles that share a node are `groups:` with whole GPUs each"
            raise WrongError(mark, f"`{name}` asks for a part of a GPU, `{count}`, which is not supported", hint)
        shown = f"not `{count}`" if count else "and there is none"
        raise WrongError(
            mark, f"the count of `{name}` must be a whole number of at least 1, {shown}", f"`{kind}:4`, for example"
        )

    def schema(self) -> Schema:
        """Return the spellings."""
        text = {"type": "string", "pattern": rf"^{_KIND}(:\s*[1-9]\d*)?$"}
        count = {"type": ["integer", "null"], "minimum": 1}
        counted = {"type": "object", "minProperties": 1, "additionalProperties": count}
        return {"anyOf": [text, counted, {"type": "array", "items": {"anyOf": [text, counted]}, "minItems": 1}]}


@dataclass(frozen=True, slots=True)
class Workdir:
    """A local folder; SkyPilot's git form is refused with the reason."""

    word: str = "the path of a folder"

    def read(self, node: Node, at: Spot) -> str:
        """Return the path."""
        url = isinstance(node, Scalar) and re.match(r"([a-z+]+://|git@)", node.text)
        if isinstance(node, Pairs) or url:
            hint = "clone it and name the folder, or clone it in `setup:`"
            raise WrongError(node.mark, f"`{at.name}` from a git repository is not supported", hint)
        if not isinstance(node, Scalar) or node.kind is Kind.NOTHING or not node.text:
            raise wrong(node, at, self.word)
        return node.text

    def schema(self) -> Schema:
        """Return a string."""
        return {"type": "string"}


@dataclass(frozen=True, slots=True)
class Script:
    """A shell script, passed on byte for byte; `${VAR}` is the shell's."""

    word: str = "a shell script"

    def read(self, node: Node, at: Spot) -> str:
        """Return the script."""
        if isinstance(node, Items):
            raise wrong(node, at, self.word, f"write the commands as one text below `{at.name}: |`")
        if not isinstance(node, Scalar) or (node.kind is not Kind.TEXT and not node.quoted):
            quoted = f'quote it if it is a command: "{node.text}"' if isinstance(node, Scalar) else None
            raise wrong(node, at, self.word, quoted)
        if not node.text.strip():
            raise WrongError(node.mark, f"`{at.name}` is empty", "write the commands to run")
        return node.text

    def schema(self) -> Schema:
        """Return a string that is not empty."""
        return {"type": "string", "minLength": 1}
