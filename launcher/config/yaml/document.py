"""YAML text to documents: root nodes with positions, or a SpecError."""

from dataclasses import dataclass

import yaml

from launcher.config.yaml.composer import Composer
from launcher.config.yaml.nodes import MappingNode, Mark, ScalarKind, ScalarNode, YamlNode
from launcher.config.yaml.syntax_errors import syntax_mistake
from launcher.config.yaml.text_file import refuse
from launcher.errors import Mistake, SpecError

# The pure parser has clearer messages, which are the same on every machine; libyaml is for long files.
LONG = 16_000

# By the expected kind of file: its own keys, a key of the other kind, the message and the hint.
_OTHER_KIND = {
    "task": (
        {"run", "groups"},
        "racks",
        "this is an inventory, not a task",
        "name a task file; pass this one with `-i`",
    ),
    "inventory": (
        {"racks"},
        "run",
        "this is a task, not an inventory",
        "pass the file that lists your racks with `-i`",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document of a file, with YAML mistakes that do not stop the reading.

    `begins` is the start of the document, before `---` and comments.
    """

    where: str
    root: MappingNode
    begins: Mark
    mistakes: tuple[Mistake, ...]


def only_document(documents: tuple[Document, ...]) -> Document:
    """Return the only document; SpecError if there are several."""
    first, *more = documents
    if more:
        hint = "write one document per file"
        raise refuse(first.where, "several documents in one file are not supported", mark=more[0].begins, hint=hint)
    return first


def parse_documents(text: str, where: str, *, what: str) -> tuple[Document, ...]:
    """Return the documents of a text, at least one.

    SpecError if there is none, or if one is not a mapping. `what` is the kind of file, `where` its name in messages.
    Empty documents, as after a last `---`, are skipped.
    """
    loader = load_events(text)
    composer = Composer(loader, where)
    try:
        roots = [(mark, root) for mark, root in composer.documents() if not _is_null(root)]
    except yaml.MarkedYAMLError as error:
        raise SpecError((*composer.mistakes, syntax_mistake(error, text, where))) from error
    except SpecError as error:
        raise SpecError((*composer.mistakes, *error.mistakes)) from error
    finally:
        loader.dispose()
    if not roots:
        raise refuse(where, "the file is empty", hint="create a starter file with `nvlaunch init`")
    mistakes = tuple(composer.mistakes)
    found = tuple(_document(what, where, mark, root, mistakes) for mark, root in roots)
    _check_kind(what, found[0].root, where)
    return found


def _is_null(root: YamlNode) -> bool:
    return isinstance(root, ScalarNode) and root.kind is ScalarKind.NULL


def _document(what: str, where: str, begins: Mark, root: YamlNode, mistakes: tuple[Mistake, ...]) -> Document:
    if not isinstance(root, MappingNode):
        hint = "write `key: value` lines at the top level"
        raise refuse(where, f"a {what} file must be a mapping", mark=root.mark, hint=hint)
    return Document(where=where, root=root, begins=begins, mistakes=mistakes)


def _check_kind(what: str, root: MappingNode, where: str) -> None:
    """Refuse a file of the other kind with one message instead of one for each key."""
    if what not in _OTHER_KIND:
        return
    own, foreign, message, hint = _OTHER_KIND[what]
    marks = {key.text: key.mark for key, _ in root.pairs}
    if foreign in marks and not own & marks.keys():
        raise refuse(where, message, mark=marks[foreign], hint=hint)


def python_text(scalar: ScalarNode) -> str:
    """Return `str()` of a value as YAML 1.1 reads it: `yes` is "True".

    Likewise `3.10` is "3.1". SkyPilot converts the values of `envs` in this way (sky/task.py, from_yaml_config).
    """
    if scalar.quoted or scalar.kind is ScalarKind.TEXT:
        return scalar.text
    try:
        return str(yaml.safe_load(scalar.text))
    except ValueError:  # `0x_` matches YAML's pattern of a number, but is none
        return scalar.text


def load_events(text: str) -> yaml.SafeLoader:
    """Return the parser for a text: libyaml for a long one."""
    if len(text) > LONG and hasattr(yaml, "CSafeLoader"):
        return yaml.CSafeLoader(text)  # type: ignore[return-value]
    return yaml.SafeLoader(text)
