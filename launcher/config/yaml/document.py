"""YAML text to nodes: the documents of a file, with every position, or why there is none."""

from dataclasses import dataclass

import yaml

from launcher.config.yaml.compose import Composer
from launcher.config.yaml.nodes import Kind, Mark, Node, Pairs, Scalar
from launcher.config.yaml.source import refuse
from launcher.config.yaml.syntax import syntax_mistake
from launcher.errors import Mistake, SpecError

# The pure parser has the clearer messages, the same on every machine; libyaml is for files too long for it.
LONG = 16_000

# By the kind of file that is expected: its own keys, the key that gives another kind away, what to say and to do.
_OTHER_KIND = {
    "task": ({"run", "groups"}, "racks", "this is an inventory, not a task", "give it with `-i`, and name a task file"),
    "inventory": ({"racks"}, "run", "this is a task, not an inventory", "`-i` takes the file that lists your racks"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One mapping of a file, and what is wrong with the file as YAML but does not hinder reading on.

    `begins` is where the document begins, which is where its root is but for comments and `---`.
    """

    where: str
    root: Pairs
    begins: Mark
    mistakes: tuple[Mistake, ...]


def only_document(documents: tuple[Document, ...]) -> Document:
    """Return the one document; SpecError when there are more."""
    first, *more = documents
    if more:
        raise refuse(first.where, "several documents are not supported", mark=more[0].begins, hint="write one a file")
    return first


def parse_documents(text: str, where: str, *, what: str) -> tuple[Document, ...]:
    """Return the mappings that a text of kind `what` holds, one at least; SpecError when there is none.

    A document with nothing in it, as behind a last `---`, is none. `where` is what messages call the text.
    """
    loader = load_events(text)
    composer = Composer(loader, where)
    try:
        roots = [(mark, root) for mark, root in composer.documents() if not _nothing(root)]
    except yaml.MarkedYAMLError as error:
        raise SpecError((*composer.mistakes, syntax_mistake(error, text, where))) from error
    except SpecError as error:
        raise SpecError((*composer.mistakes, *error.mistakes)) from error
    finally:
        loader.dispose()
    if not roots:
        raise refuse(where, "the file is empty", hint="`nvlaunch init` writes files to start from")
    mistakes = tuple(composer.mistakes)
    found = tuple(_document(what, where, mark, root, mistakes) for mark, root in roots)
    _check_kind(what, found[0].root, where)
    return found


def _nothing(root: Node) -> bool:
    return isinstance(root, Scalar) and root.kind is Kind.NOTHING


def _document(what: str, where: str, begins: Mark, root: Node, mistakes: tuple[Mistake, ...]) -> Document:
    if not isinstance(root, Pairs):
        hint = "write `key: value` lines at the top level"
        raise refuse(where, f"a {what} file must be a mapping", mark=root.mark, hint=hint)
    return Document(where=where, root=root, begins=begins, mistakes=mistakes)


def _check_kind(what: str, root: Pairs, where: str) -> None:
    """Refuse a whole file of the other kind as what it is, instead of key by key."""
    own, foreign, message, hint = _OTHER_KIND[what]
    marks = {key.text: key.mark for key, _ in root.pairs}
    if foreign in marks and not own & marks.keys():
        raise refuse(where, message, mark=marks[foreign], hint=hint)


def python_text(scalar: Scalar) -> str:
    """Return a plain scalar as `str()` of what YAML 1.1 reads: `yes` is "True", `3.10` is "3.1".

    SkyPilot coerces environment values so (sky/task.py, from_yaml_config), before anything else looks at them.
    """
    if scalar.quoted or scalar.kind is Kind.TEXT:
        return scalar.text
    try:
        return str(yaml.safe_load(scalar.text))
    except ValueError:  # `0x_` looks like a number to YAML, and is none
        return scalar.text


def load_events(text: str) -> yaml.SafeLoader:
    """Return the parser for a text, by its length."""
    if len(text) > LONG and hasattr(yaml, "CSafeLoader"):
        return yaml.CSafeLoader(text)  # type: ignore[return-value]
    return yaml.SafeLoader(text)
