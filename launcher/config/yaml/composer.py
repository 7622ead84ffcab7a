"""Compose events of the YAML library into nodes, with limits on their number."""

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

from launcher.config.yaml.nodes import NOWHERE, MappingNode, Mark, ScalarKind, ScalarNode, SequenceNode, YamlNode
from launcher.config.yaml.text_file import refuse
from launcher.errors import Mistake

MAX_DEPTH = 40
MAX_NODES = 1_000_000  # with every alias expanded

_TAG = "tag:yaml.org,2002:"
_KINDS = {
    f"{_TAG}str": ScalarKind.TEXT,
    f"{_TAG}int": ScalarKind.INTEGER,
    f"{_TAG}float": ScalarKind.FLOAT,
    f"{_TAG}bool": ScalarKind.BOOLEAN,
    f"{_TAG}null": ScalarKind.NULL,
}
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_COLLECTION_TAGS = {f"{_TAG}map", f"{_TAG}seq"}


def _mark(event: Event) -> Mark:
    start = event.start_mark
    return Mark(start.line + 1, start.column + 1) if start is not None else NOWHERE


class Composer:
    """Composes the nodes of a file.

    The library's own recurses without bound and loses the positions of keys.
    """

    def __init__(self, loader: yaml.SafeLoader, where: str) -> None:
        self.mistakes: list[Mistake] = []
        self._loader = loader
        self._where = where
        self._count = 0
        self._anchors: dict[str, tuple[YamlNode, int] | None] = {}

    def documents(self) -> Iterator[tuple[Mark, YamlNode]]:
        """Yield the start and the root of each document.

        SpecError if the rest of the file must not be read.
        """
        self._next()
        while not self._loader.check_event(StreamEndEvent):
            self._anchors.clear()  # an anchor is valid in its own document only
            mark = _mark(self._next())
            root = self._node(0)
            self._next()
            yield mark, root

    def _next(self) -> Event:
        event: Event = self._loader.get_event()  # type: ignore[no-untyped-call]
        return event

    def _mistake(self, mark: Mark, what: str, hint: str | None = None) -> None:
        self.mistakes.append(Mistake(what=what, where=self._where, line=mark.line, column=mark.column, hint=hint))

    def _node(self, depth: int) -> YamlNode:
        event = self._next()
        mark = _mark(event)
        self._count += 1
        if not isinstance(event, ScalarEvent | CollectionStartEvent):
            return self._alias(event, mark)
        if depth > MAX_DEPTH:
            raise refuse(self._where, f"the file is nested deeper than {MAX_DEPTH} levels", mark=mark)
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
            raise refuse(
                self._where, f"the file has more than {MAX_NODES:,} values with its aliases expanded", mark=mark
            )

    def _alias(self, event: Event, mark: Mark) -> YamlNode:
        name = getattr(event, "anchor", "")
        if name not in self._anchors:
            hint = f'quote text that begins with `*`: "*{name}"'
            raise refuse(self._where, f"alias `*{name}` has no anchor `&{name}`", mark=mark, hint=hint)
        known = self._anchors[name]
        if known is None:
            raise refuse(self._where, f"alias `*{name}` refers to itself", mark=mark)
        node, size = known
        self._count += size
        self._bound(mark)
        return node

    def _composed(self, event: ScalarEvent | CollectionStartEvent, mark: Mark, depth: int) -> YamlNode:
        if isinstance(event, ScalarEvent):
            return self._scalar(event, mark)
        if event.tag not in (None, "!") and event.tag not in _COLLECTION_TAGS:
            self._bad_tag(event.tag, mark)
        if isinstance(event, MappingStartEvent):
            return self._pairs(mark, depth)
        items: list[YamlNode] = []
        while not self._loader.check_event(SequenceEndEvent):
            items.append(self._node(depth + 1))
        self._next()
        return SequenceNode(mark, tuple(items))

    def _scalar(self, event: ScalarEvent, mark: Mark) -> ScalarNode:
        plain = not event.style  # None in one parser, empty in the other
        tag = event.tag
        text = self._text(event.value, mark)
        if tag in (None, "!"):
            tag = self._loader.resolve(yaml.ScalarNode, text, event.implicit)  # type: ignore[no-untyped-call]
            # YAML 1.1 reads `12:30` in base 60 and dates as objects; users mean text.
            kind = ScalarKind.TEXT if ":" in text else _KINDS.get(tag, ScalarKind.TEXT)
            return ScalarNode(mark, text, kind, quoted=not plain)
        if tag != f"{_TAG}str":
            self._bad_tag(tag, mark)
        return ScalarNode(mark, text, ScalarKind.TEXT, quoted=True)

    def _text(self, value: str, mark: Mark) -> str:
        r"""Return text with surrogates (`\ud83d\ude00`) joined to one character.

        A NUL, or half of such a pair, is a mistake: no file, argument or variable can hold it.
        """
        if _NO_TEXT.search(value) is None:
            return value
        text = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace("\0", "\ufffd")
        if text.count("\ufffd") > value.count("\ufffd"):
            what = "this text has an escape for a NUL or half a character, which cannot be passed to a program"
            self._mistake(mark, what, "remove the escape; put binary data in a file")
        return text

    def _bad_tag(self, tag: str, mark: Mark) -> None:
        shown = tag.replace(_TAG, "!!")
        self._mistake(mark, f"tag `{shown}` is not supported", "write the value without a tag")

    def _pairs(self, mark: Mark, depth: int) -> MappingNode:
        own: dict[str, tuple[ScalarNode, YamlNode]] = {}
        merged: list[MappingNode] = []
        while not self._loader.check_event(MappingEndEvent):
            key = self._node(depth + 1)
            value = self._node(depth + 1)
            if not isinstance(key, ScalarNode):
                self._mistake(key.mark, "a key must be text, not a list or a mapping", self._brace_hint(value))
            elif key.text == "<<" and not key.quoted:
                merged += self._merge(key.mark, value)
            elif key.text in own:
                first = own[key.text][0].mark.line
                what = f"duplicate key `{key.text}`, first on line {first}"
                self._mistake(key.mark, what, "remove one of the two")
            else:
                own[key.text] = (key, value)
        self._next()
        for source in merged:
            for key, value in source.pairs:
                own.setdefault(key.text, (key, value))
        return MappingNode(mark, tuple(own.values()))

    @staticmethod
    def _brace_hint(value: YamlNode) -> str | None:
        templated = isinstance(value, ScalarNode) and value.kind is ScalarKind.NULL
        return "quote text that begins with `{`" if templated else None

    def _merge(self, mark: Mark, value: YamlNode) -> list[MappingNode]:
        parts = value.items if isinstance(value, SequenceNode) else (value,)
        good = [part for part in parts if isinstance(part, MappingNode)]
        if len(good) < len(parts):
            self._mistake(mark, "`<<` must be a mapping or a list of mappings", "write `<<: *name`")
        return good
