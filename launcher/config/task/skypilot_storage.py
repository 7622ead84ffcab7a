"""The source of a file mount: a local path.

SkyPilot's storage is accepted only if it copies one local path.
"""

import re
from dataclasses import dataclass

from launcher.config.schema.containers import ListOf
from launcher.config.schema.fields import Field, Section, Use, section
from launcher.config.schema.scalars import Boolean, Choice, Text
from launcher.config.schema.value_types import InvalidValueError, Schema, invalid
from launcher.config.task.skypilot_keys import INTERNAL, SHARED, Unread
from launcher.config.yaml.diagnostics import KeyPath
from launcher.config.yaml.nodes import MappingNode, ScalarKind, ScalarNode, YamlNode

_BUCKET = r"[A-Za-z0-9]+://"
_MODES = ("COPY", "MOUNT", "MOUNT_CACHED")

# sky/utils/schemas.py, get_storage_schema
STORAGE: Section = section(
    Field(name="name", doc="The name of the bucket.", type=Text(numbers=True)),
    Field(name="source", doc="The local path.", type=ListOf(item=Text(expected="a path"), single=True, filled=True)),
    Field(name="store", doc="The cloud of the bucket.", type=Text()),
    Field(name="persistent", doc="Whether the bucket is kept.", type=Boolean()),
    Field(
        name="mode",
        doc="`COPY` copies a local `source` to the nodes; other modes need a bucket, which is not supported.",
        type=Choice(choices=(*_MODES, *map(str.lower, _MODES))),
        default="MOUNT",
    ),
    Field(name="type", doc="The kind of its content.", type=Text()),
    Field(name="config", doc="Options of the mount.", type=Unread()),
    *(
        Field(name=name, doc="A key of SkyPilot.", use=Use.REFUSED, why=INTERNAL, instead="remove it")
        for name in ("_is_sky_managed", "_bucket_sub_path", "_force_delete")
    ),
)


@dataclass(frozen=True, slots=True)
class MountSource:
    """A local path, or SkyPilot's storage with `mode: COPY` and one local path."""

    expected: str = "a local path"

    def read(self, node: YamlNode, at: KeyPath) -> str:
        """Return the path."""
        if isinstance(node, MappingNode):
            return self._stored(node, at)
        if not isinstance(node, ScalarNode) or node.kind is ScalarKind.NULL:
            raise invalid(node, at, self.expected)
        if re.match(_BUCKET, node.text):
            raise InvalidValueError(node.mark, f"`{at.name}`: buckets are not supported", SHARED)
        return node.text

    @staticmethod
    def _stored(node: MappingNode, at: KeyPath) -> str:
        storage = STORAGE.read(node, at)
        sources, mode = storage.texts("source"), storage.get("mode", str) or "MOUNT"
        if not sources or any(re.match(_BUCKET, source) for source in sources):
            raise InvalidValueError(node.mark, f"`{at.name}`: buckets are not supported", SHARED)
        if len(sources) > 1:
            what = f"`{at.name}`: several sources in one mount are not supported"
            raise InvalidValueError(storage.mark_of("source"), what, "write one mount for each source")
        if mode.upper() != "COPY":
            hint = f"use `mode: COPY` to copy `{sources[0]}` to the nodes; changes there are not copied back"
            what = f"`{at.name}`: mounting `{sources[0]}` through a bucket is not supported"
            raise InvalidValueError(node.mark, what, hint)
        at.out.warn(node.mark, f"`{at.name}`: `{sources[0]}` is copied to the nodes without a bucket")
        return sources[0]

    def schema(self) -> Schema:
        """Return a path, or a storage."""
        return {"anyOf": [{"type": "string"}, STORAGE.schema()]}
