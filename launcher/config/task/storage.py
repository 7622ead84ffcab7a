"""Where a file mount comes from: a local path. SkyPilot's storage is a bucket, and there are none here."""

import re
from dataclasses import dataclass

from launcher.config.schema.fields import Field, Section, Use, section
from launcher.config.schema.shapes import Choice, ListOf, Schema, Text, Truth, WrongError, wrong
from launcher.config.task.skypilot import INTERNAL, SHARED, Unread
from launcher.config.yaml.nodes import Kind, Node, Pairs, Scalar
from launcher.config.yaml.reading import Spot

_BUCKET = r"[A-Za-z0-9]+://"
_MODES = ("COPY", "MOUNT", "MOUNT_CACHED")

# sky/utils/schemas.py, get_storage_schema
STORAGE: Section = section(
    Field(name="name", doc="The name of the bucket.", shape=Text(numbers=True)),
    Field(name="source", doc="Where it comes from.", shape=ListOf(item=Text(word="a path"), single=True, filled=True)),
    Field(name="store", doc="Whose bucket it is.", shape=Text()),
    Field(name="persistent", doc="Whether the bucket is kept.", shape=Truth()),
    Field(
        name="mode",
        doc="`COPY` copies a local `source` to the nodes; without a bucket nothing can be mounted.",
        shape=Choice(message=(*_MODES, *map(str.lower, _MODES))),
        default="MOUNT",
    ),
    Field(name="type", doc="What is in it.", shape=Text()),
    Field(name="config", doc="How it is mounted.", shape=Unread()),
    *(
        Field(name=name, doc="SkyPilot's.", use=Use.REFUSED, why=INTERNAL, instead="remove it")
        for name in ("_is_sky_managed", "_bucket_sub_path", "_force_delete")
    ),
)


@dataclass(frozen=True, slots=True)
class MountSource:
    """A local path, or SkyPilot's storage where that means the same: one local path that is copied."""

    word: str = "a local path"

    def read(self, node: Node, at: Spot) -> str:
        """Return the path."""
        if isinstance(node, Pairs):
            return self._stored(node, at)
        if not isinstance(node, Scalar) or node.kind is Kind.NOTHING:
            raise wrong(node, at, self.word)
        if re.match(_BUCKET, node.text):
            raise WrongError(node.mark, f"`{at.name}`: buckets cannot be mounted", SHARED)
        return node.text

    @staticmethod
    def _stored(node: Pairs, at: Spot) -> str:
        storage = STORAGE.read(node, at)
        sources, mode = storage.texts("source"), storage.get("mode", str) or "MOUNT"
        if not sources or any(re.match(_BUCKET, source) for source in sources):
            raise WrongError(node.mark, f"`{at.name}`: buckets cannot be mounted", SHARED)
        if len(sources) > 1:
            what = f"`{at.name}`: several sources of one bucket cannot be copied"
            raise WrongError(storage.mark_of("source"), what, "give each a mount of its own")
        if mode.upper() != "COPY":
            hint = f"`mode: COPY` copies `{sources[0]}` to the nodes, where what is written stays"
            raise WrongError(node.mark, f"`{at.name}`: a bucket made of `{sources[0]}` cannot be mounted", hint)
        at.out.warn(node.mark, f"`{at.name}` is copied from `{sources[0]}`, and no bucket is made")
        return sources[0]

    def schema(self) -> Schema:
        """Return a path, or a storage."""
        return {"anyOf": [{"type": "string"}, STORAGE.schema()]}
