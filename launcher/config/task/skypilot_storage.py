"""The source of a file mount: a local path, a URL, or SkyPilot's storage."""

from dataclasses import dataclass

from launcher.config.schema.containers import ListOf
from launcher.config.schema.fields import Field, Section, Use, section
from launcher.config.schema.scalars import Boolean, Choice, Text
from launcher.config.schema.value_types import InvalidValueError, Schema, invalid
from launcher.config.task.buckets import STORES
from launcher.config.task.skypilot_keys import INTERNAL, Unread
from launcher.config.yaml.diagnostics import KeyPath
from launcher.config.yaml.nodes import MappingNode, ScalarKind, ScalarNode, YamlNode
from launcher.core.model.buckets import MountMode

_MODES = tuple(mode.value for mode in MountMode)

_STORE = Choice(choices=(*STORES, *map(str.upper, STORES)))


@dataclass(frozen=True, slots=True)
class StoreName:
    """The name of a store, or a variable that has it."""

    expected: str = f"{_STORE.expected}, or a variable such as `$STORE`"

    def read(self, node: YamlNode, at: KeyPath) -> str:
        """Return what is written: a variable is expanded later."""
        if isinstance(node, ScalarNode) and node.text.startswith("$"):
            return node.text
        return _STORE.read(node, at)

    def schema(self) -> Schema:
        """Return the names, or a variable."""
        return {"anyOf": [_STORE.schema(), {"type": "string", "pattern": r"^\$"}]}


# sky/utils/schemas.py, get_storage_schema
STORAGE: Section = section(
    Field(name="name", doc="The name of the bucket; it is made if there is none.", type=Text(numbers=True)),
    Field(
        name="source",
        doc="The URL of a bucket or of a part of it; or local paths, which are uploaded to the bucket `name`.",
        type=ListOf(item=Text(expected="a path or a URL"), single=True, filled=True),
    ),
    Field(
        name="store",
        doc="The store of the bucket `name`.",
        type=StoreName(),
        default="s3",
    ),
    Field(name="persistent", doc="Buckets are always kept.", type=Boolean()),
    Field(
        name="mode",
        doc="`MOUNT`: read and write through a mount. `MOUNT_CACHED`: the same, with writes on the node's disk first. "
        "`COPY`: copy all files before `setup`.",
        type=Choice(choices=(*_MODES, *map(str.lower, _MODES))),
        default="MOUNT",
    ),
    Field(name="type", doc="The kind of its content.", type=Text()),
    Field(name="config", doc="Options of the mount.", type=Unread(why="mounts have fixed options")),
    *(
        Field(name=name, doc="A key of SkyPilot.", use=Use.REFUSED, why=INTERNAL, instead="remove it")
        for name in ("_is_sky_managed", "_bucket_sub_path", "_force_delete")
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenMount:
    """A mount as the file has it: one source as text, or with `storage` the keys of SkyPilot's storage."""

    sources: tuple[str, ...] = ()
    name: str | None = None
    store: str | None = None
    mode: MountMode = MountMode.COPY
    storage: bool = False
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class MountSource:
    """A local path or a URL, or SkyPilot's storage."""

    expected: str = "a local path, a URL such as `s3://BUCKET/PREFIX`, or a mapping such as `{source: s3://BUCKET}`"

    def read(self, node: YamlNode, at: KeyPath) -> WrittenMount:
        """Return what is written."""
        if isinstance(node, MappingNode):
            return self._stored(node, at)
        if not isinstance(node, ScalarNode) or node.kind is ScalarKind.NULL:
            raise invalid(node, at, self.expected)
        return WrittenMount(sources=(node.text,))

    @staticmethod
    def _stored(node: MappingNode, at: KeyPath) -> WrittenMount:
        storage = STORAGE.read(node, at)
        sources, name = storage.texts("source"), storage.get("name", str)
        if not sources and name is None:
            if storage.has("source") or storage.has("name"):  # a wrong one, which is reported
                raise InvalidValueError(node.mark, f"`{at.name}` names no bucket", "write `source:` or `name:`")
            what = f"`{at.name}` has neither `source` nor `name`"
            raise InvalidValueError(node.mark, what, "write `source: s3://BUCKET`, or `name: BUCKET`")
        return WrittenMount(
            storage=True,
            sources=sources,
            name=name,
            store=storage.get("store", str),
            mode=MountMode((storage.get("mode", str) or "MOUNT").upper()),
            temporary=storage.get("persistent", bool) is False,
        )

    def schema(self) -> Schema:
        """Return a path or a URL, or a storage."""
        return {"anyOf": [{"type": "string"}, STORAGE.schema()]}
