"""YAML text to nodes: the one document of a file, with every position, or why there is none."""

from dataclasses import dataclass
from pathlib import Path

import yaml

from launcher.errors import Mistake, SpecError
from launcher.spec.compose import Composer
from launcher.spec.nodes import Kind, Pairs, Scalar
from launcher.spec.source import read_text, refuse
from launcher.spec.syntax import syntax_mistake

# The pure parser has the clearer messages, the same on every machine; libyaml is for files too long for it.
LONG = 16_000

# By the kind of file that is expected: its own keys, the key that gives another kind away, what to say and to do.
_OTHER_KIND = {
    "task": ({"run", "groups"}, "racks", "this is an inventory, not a task", "give it with `-i`, and name a task file"),
    "inventory": ({"racks"}, "run", "this is a task, not an inventory", "`-i` takes the file that lists your racks"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The one mapping of a file, and what is wrong with it as YAML but does not hinder reading on."""

    where: str
    root: Pairs
    mistakes: tuple[Mistake, ...]


def read_document(path: Path, *, what: str, several: str = "several documents", hint: str | None = None) -> Document:
    """Answer the mapping that a file of kind `what` holds; SpecError when there is none, or more than one.

    `several` and `hint` are the words for more than one document.
    """
    where = str(path)
    text = read_text(path, what=f"{what} file")
    loader = _loader(text)
    composer = Composer(loader, where)
    try:
        root = composer.document()
        another = composer.another()
    except yaml.MarkedYAMLError as error:
        raise SpecError((*composer.mistakes, syntax_mistake(error, text, where))) from error
    except SpecError as error:
        raise SpecError((*composer.mistakes, *error.mistakes)) from error
    finally:
        loader.dispose()
    if another is not None:
        raise refuse(where, f"{several} are not supported yet", mark=another, hint=hint)
    if root is None or (isinstance(root, Scalar) and root.kind is Kind.NOTHING):
        raise refuse(where, "the file is empty", hint="`nvlaunch init` writes files to start from")
    if not isinstance(root, Pairs):
        hint = "write `key: value` lines at the top level"
        raise refuse(where, f"a {what} file must be a mapping", mark=root.mark, hint=hint)
    _check_kind(what, root, where)
    return Document(where=where, root=root, mistakes=tuple(composer.mistakes))


def _check_kind(what: str, root: Pairs, where: str) -> None:
    """Refuse a whole file of the other kind as what it is, instead of key by key."""
    own, foreign, words, hint = _OTHER_KIND[what]
    marks = {key.text: key.mark for key, _ in root.pairs}
    if foreign in marks and not own & marks.keys():
        raise refuse(where, words, mark=marks[foreign], hint=hint)


def python_text(scalar: Scalar) -> str:
    """Answer a plain scalar as `str()` of what YAML 1.1 reads: `yes` is "True", `3.10` is "3.1".

    SkyPilot coerces environment values so (sky/task.py, from_yaml_config), before anything else looks at them.
    """
    if scalar.quoted or scalar.kind is Kind.TEXT:
        return scalar.text
    try:
        return str(yaml.safe_load(scalar.text))
    except ValueError:  # `0x_` looks like a number to YAML, and is none
        return scalar.text


def _loader(text: str) -> yaml.SafeLoader:
    if len(text) > LONG and hasattr(yaml, "CSafeLoader"):
        return yaml.CSafeLoader(text)  # type: ignore[return-value]
    return yaml.SafeLoader(text)
