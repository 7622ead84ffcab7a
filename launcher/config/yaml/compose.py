"""Events of the YAML library to nodes, bounded in depth and aliases."""

import re
from collections.abc import Iterator

import yaml
from yaml.events import (
    CollectionStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)

from launcher.config.yaml.nodes import NOWHERE, Items, Kind, Mark, Node, Pairs, Scalar
from launcher.config.yaml.source import refuse
from launcher.errors import Mistake

MAX_DEPTH = 40
MAX_NODES = 1_000_000  # with every alias written out

_TAG = "tag:yaml.org,2002:"
_KINDS = {
    f"{_TAG}str": Kind.TEXT,
    f"{_TAG}int": Kind.WHOLE,
    f"{_TAG}float": Kind.DECIMAL,
    f"{_TAG}bool": Kind.TRUTH,
    f"{_TAG}null": Kind.NOTHING,
}
_UNHOLDABLE = re.compile("[\0\ud800-\udfff]")
_COLLECTION_TAGS = {f"{_TAG}map", f"{_TAG}seq"}


def _mark(event: Event) -> Mark:
    start = event.start_mark
    return Mark(start.line + 1, start.column + 1) if start is not None else NOWHERE


class Composer:
    """Events to nodes. Our own, since the library's recurses without bound and forgets where a key stood."""

    def __init__(self, loader: yaml.SafeLoader, where: str) -> None:
        self.mistakes: list[Mistake] = []
        self._loader = loader
        self._where = where
        self._count = 0
        self._anchors: dict[str, tuple[Node, int] | None] = {}

    def documents(self) -> Iterator[tuple[Mark, Node]]:
        """Return where each document begins, and its root; SpecError when it must not be read on."""
        self._next()
        while not self._loader.check_event(StreamEndEvent):
            self._anchors.clear()  # an anchor is known in its own document only
            mark = _mark(self._next())
            root = self._node(0)
            self._next()
            yield mark, root

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
        text = self._text(event.value, mark)
        if tag in (None, "!"):
            tag = self._loader.resolve(yaml.ScalarNode, text, event.implicit)  # type: ignore[no-untyped-call]
            # Base 60 and dates are numbers and objects to YAML 1.1, and text to whoever wrote them.
            kind = Kind.TEXT if ":" in text else _KINDS.get(tag, Kind.TEXT)
            return Scalar(mark, text, kind, quoted=not plain)
        if tag != f"{_TAG}str":
            self._bad_tag(tag, mark)
        return Scalar(mark, text, Kind.TEXT, quoted=True)

    def _text(self, value: str, mark: Mark) -> str:
        r"""Return what escapes in double quotes make, `\ud83d\ude00` being one character, as JSON writes it.

        They can also make what no file, argument or variable can hold: a NUL, or half of such a pair.
        """
        if _UNHOLDABLE.search(value) is None:
            return value
        text = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace("\0", "\ufffd")
        if text.count("\ufffd") > value.count("\ufffd"):
            what = "an escape in this text makes a NUL or half a character, which no program can be given"
            self._mistake(mark, what, "remove it; binary data belongs in a file")
        return text

    def _bad_tag(self, tag: str, mark: Mark) -> None:
        shown = tag.replace(_TAG, "!!")
        self._mistake(mark, f"the tag `{shown}` is not supported", "write the value without a tag")

    def _pairs(self, mark: Mark, depth: int) -> Pairs:
        own: dict[str, tuple[Scalar, Node]] = {}
        merged: list[Pairs] = []
        while not self._loader.check_event(MappingEndEvent):
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
