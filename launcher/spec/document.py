"""YAML text to nodes: bounded in size, depth and aliases; the only module that speaks to the YAML library."""

from dataclasses import dataclass
from pathlib import Path

import yaml
from yaml.events import (
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)

from launcher.errors import Mistake, SpecError
from launcher.spec.nodes import NOWHERE, Items, Kind, Mark, Node, Pairs, Scalar
from launcher.spec.source import read_text, refuse
from launcher.spec.syntax import syntax_mistake

MAX_DEPTH = 40
MAX_NODES = 1_000_000  # with every alias written out

# The pure parser has the clearer messages, the same on every machine; libyaml is for files too long for it.
_LONG = 16_000

_TAG = "tag:yaml.org,2002:"
_KINDS = {
    f"{_TAG}str": Kind.TEXT,
    f"{_TAG}int": Kind.WHOLE,
    f"{_TAG}float": Kind.DECIMAL,
    f"{_TAG}bool": Kind.TRUTH,
    f"{_TAG}null": Kind.NOTHING,
}
_COLLECTION_TAGS = {f"{_TAG}map", f"{_TAG}seq"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The one mapping of a file, and what is wrong with it as YAML but does not hinder reading on."""

    where: str
    root: Pairs
    mistakes: tuple[Mistake, ...]


def read_document(path: Path, *, what: str, several: str | None = None) -> Document:
    """Answer the mapping that a file of kind `what` holds; SpecError when there is none, or more than one document.

    `several` says why more than one document is refused.
    """
    where = str(path)
    text = read_text(path, what=f"{what} file")
    loader = _loader(text)
    composer = _Composer(loader, where)
    try:
        root = composer.document(several or f"several documents in one {what} file are not supported")
    except yaml.MarkedYAMLError as error:
        raise SpecError((syntax_mistake(error, text, where),)) from error
    finally:
        loader.dispose()
    if root is None or (isinstance(root, Scalar) and root.kind is Kind.NOTHING):
        raise refuse(where, "the file is empty", hint="`nvlaunch init` writes files to start from")
    if not isinstance(root, Pairs):
        hint = "write `key: value` lines at the top level"
        raise refuse(where, f"a {what} file must be a mapping", mark=root.mark, hint=hint)
    return Document(where=where, root=root, mistakes=tuple(composer.mistakes))


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
    if len(text) > _LONG and hasattr(yaml, "CSafeLoader"):
        return yaml.CSafeLoader(text)  # type: ignore[return-value]
    return yaml.SafeLoader(text)


def _mark(event: Event) -> Mark:
    start = event.start_mark
    return Mark(start.line + 1, start.column + 1) if start is not None else NOWHERE


class _Composer:
    """Events to nodes. Our own, since the library's recurses without bound and forgets where a key stood."""

    def __init__(self, loader: yaml.SafeLoader, where: str) -> None:
        self.mistakes: list[Mistake] = []
        self._loader = loader
        self._where = where
        self._count = 0
        self._anchors: dict[str, tuple[Node, int] | None] = {}

    def document(self, several: str) -> Node | None:
        """Answer the root of the only document, None when there is no document at all."""
        self._next()
        if self._loader.check_event(StreamEndEvent):
            return None
        self._next()
        root = self._node(0)
        self._next()
        if self._loader.check_event(DocumentStartEvent):
            hint = "give each its own file; roles that run together are `groups:` of one task"
            raise refuse(self._where, several, mark=_mark(self._next()), hint=hint if "job groups" in several else None)
        return root

    def _next(self) -> Event:
        event: Event = self._loader.get_event()  # type: ignore[no-untyped-call]
        return event

    def _mistake(self, mark: Mark, what: str, hint: str | None = None) -> None:
        self.mistakes.append(Mistake(what=what, where=self._where, line=mark.line, column=mark.column, hint=hint))

    def _node(self, depth: int) -> Node:
        event = self._next()
        mark = _mark(event)
        self._count += 1
        if not isinstance(event, ScalarEvent | CollectionStartEvent):
            return self._alias(event, mark)
        if depth > MAX_DEPTH:
            raise refuse(self._where, f"nested deeper than {MAX_DEPTH} levels", mark=mark)
        before = self._count
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        node = self._composed(event, mark, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, self._count - before + 1)
        self._bound(mark)
        return node

    def _bound(self, mark: Mark) -> None:
        if self._count > MAX_NODES:
            raise refuse(self._where, f"more than {MAX_NODES:,} values once its aliases are written out", mark=mark)

    def _alias(self, event: Event, mark: Mark) -> Node:
        name = getattr(event, "anchor", "")
        if name not in self._anchors:
            hint = f'text that begins with `*` must stand in quotes: "*{name}"'
            raise refuse(self._where, f"`*{name}` refers to no anchor `&{name}`", mark=mark, hint=hint)
        known = self._anchors[name]
        if known is None:
            raise refuse(self._where, f"`*{name}` refers to itself", mark=mark)
        node, size = known
        self._count += size
        self._bound(mark)
        return node

    def _composed(self, event: ScalarEvent | CollectionStartEvent, mark: Mark, depth: int) -> Node:
        if isinstance(event, ScalarEvent):
            return self._scalar(event, mark)
        if event.tag not in (None, "!") and event.tag not in _COLLECTION_TAGS:
            self._bad_tag(event.tag, mark)
        if isinstance(event, MappingStartEvent):
            return self._pairs(mark, depth)
        items: list[Node] = []
        while not self._loader.check_event(SequenceEndEvent):
            items.append(self._node(depth + 1))
        self._next()
        return Items(mark, tuple(items))

    def _scalar(self, event: ScalarEvent, mark: Mark) -> Scalar:
        plain = not event.style  # None to one parser, empty to the other
        tag = event.tag
        if tag in (None, "!"):
            tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)  # type: ignore[no-untyped-call]
            # Base 60 and dates are numbers and objects to YAML 1.1, and text to whoever wrote them.
            number = tag in (f"{_TAG}int", f"{_TAG}float") and ":" not in event.value
            kind = _KINDS.get(tag, Kind.TEXT) if number or tag in (f"{_TAG}bool", f"{_TAG}null") else Kind.TEXT
        elif tag == f"{_TAG}str":
            return Scalar(mark, event.value, Kind.TEXT, quoted=True)
        else:
            self._bad_tag(tag, mark)
            kind = Kind.TEXT
        return Scalar(mark, event.value, kind, quoted=not plain)

    def _bad_tag(self, tag: str, mark: Mark) -> None:
        shown = tag.replace(_TAG, "!!")
        self._mistake(mark, f"the tag `{shown}` is not supported", "write the value without a tag")

    def _pairs(self, mark: Mark, depth: int) -> Pairs:
        own: dict[str, tuple[Scalar, Node]] = {}
        merged: list[Pairs] = []
        while not self._loader.check_event(yaml.events.MappingEndEvent):
            key = self._node(depth + 1)
            value = self._node(depth + 1)
            if not isinstance(key, Scalar):
                self._mistake(key.mark, "a key must be text, not a list or a mapping", self._brace_hint(value))
            elif key.text == "<<" and not key.quoted:
                merged += self._merge(key.mark, value)
            elif key.text in own:
                first = own[key.text][0].mark.line
                hint = "keep one of the two"
                self._mistake(key.mark, f"duplicate key `{key.text}`, first on line {first}", hint)
            else:
                own[key.text] = (key, value)
        self._next()
        for source in merged:
            for key, value in source.pairs:
                own.setdefault(key.text, (key, value))
        return Pairs(mark, tuple(own.values()))

    @staticmethod
    def _brace_hint(value: Node) -> str | None:
        templated = isinstance(value, Scalar) and value.kind is Kind.NOTHING
        return "text that begins with `{` must stand in quotes" if templated else None

    def _merge(self, mark: Mark, value: Node) -> list[Pairs]:
        parts = value.items if isinstance(value, Items) else (value,)
        good = [part for part in parts if isinstance(part, Pairs)]
        if len(good) < len(parts):
            self._mistake(mark, "`<<` takes a mapping, or a list of mappings", "write `<<: *name`")
        return good
