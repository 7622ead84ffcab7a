"""`storage:` of an inventory: how nodes reach buckets."""

import re
from collections.abc import Mapping

from launcher.config.schema.containers import MapOf
from launcher.config.schema.fields import Field, section
from launcher.config.schema.patterns import env_name, path
from launcher.config.schema.scalars import Boolean, Text
from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.values import FieldValue, Values
from launcher.core.model.buckets import ObjectStore, StorageSettings

_WORD = Text(expected="a name", pattern=r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
_STORES = tuple(one.value for one in ObjectStore if one is not ObjectStore.WEB)
_KEY = Text(
    expected="a store such as `s3`, or a bucket such as `s3://BUCKET`",
    pattern=rf"({'|'.join(_STORES)})(://[A-Za-z0-9][A-Za-z0-9._/-]*[A-Za-z0-9])?",
    hint=f"stores are {', '.join(_STORES)}; a bucket of Azure is `azure://ACCOUNT/CONTAINER`",
)

_STORE = section(
    Field(
        name="endpoint",
        doc="The address of the store, such as `http://minio.example:9000`. Default: that of the cloud.",
        type=Text(
            expected="an address such as `https://minio.example:9000`",
            pattern=r"https?://[A-Za-z0-9\[][A-Za-z0-9_.:\[\]-]*(/[A-Za-z0-9_./-]*)?",
        ),
    ),
    Field(name="region", doc="The region of the buckets.", type=_WORD),
    Field(
        name="provider",
        doc="The make of a store that speaks S3, as rclone calls it: `Minio`, `Ceph`, `Other`.",
        type=_WORD,
    ),
    Field(
        name="credentials",
        doc="A file on the nodes with keys: one of AWS for S3, of a service account for GCS and Azure.",
        type=path,
    ),
    Field(name="profile", doc="The profile in `credentials`.", type=_WORD),
    Field(
        name="access_key",
        doc="The variable of the nodes, or secret of the task, with the access key; Azure and GCS have none.",
        type=env_name,
    ),
    Field(
        name="secret_key",
        doc="The variable of the nodes, or secret of the task, with the secret key; of Azure, the account's key.",
        type=env_name,
    ),
    Field(name="rclone_config", doc="A configuration file of rclone on the nodes.", type=path),
    Field(name="remote", doc="The section of `rclone_config` that describes the store.", type=_WORD),
    Field(name="anonymous", doc="Whether the buckets are public and need no keys.", type=Boolean(), default=False),
    expected="a mapping such as `{endpoint: http://minio.example:9000}`",
)
STORAGE_SETTINGS = MapOf(item=_STORE, keys=_KEY, expected="a mapping of stores or buckets to their settings")


def read_storage(entries: Mapping[str, FieldValue], out: Diagnostics) -> dict[str, StorageSettings]:
    """Return the settings by store, or by bucket."""
    return {name: _one(name, found.value, out) for name, found in entries.items() if isinstance(found.value, Values)}


def _one(name: str, values: Values, out: Diagnostics) -> StorageSettings:
    pairs = [("rclone_config", "remote"), ("remote", "rclone_config"), ("profile", "credentials")]
    store = name.partition("://")[0]
    if store == ObjectStore.AZURE.value:
        if values.has("access_key"):
            hint = "name the key of the account as `secret_key`; the account is in the URL"
            out.mistake(values.key_of("access_key"), "Azure has no `access_key`", hint)
    elif store == ObjectStore.GCS.value:
        for key in filter(values.has, ("access_key", "secret_key")):
            hint = "name a file of a service account as `credentials`"
            out.mistake(values.key_of(key), f"Google Cloud Storage has no `{key}` here", hint)
    else:
        pairs += [("access_key", "secret_key"), ("secret_key", "access_key")]
    for one, other in pairs:
        if values.has(one) and not values.has(other):
            out.mistake(values.key_of(one), f"`{one}` needs `{other}`", f"add `{other}`")
    keys = "secret_key" if store == ObjectStore.AZURE.value else "access_key"
    ways = [way for way in ("credentials", keys, "rclone_config") if values.has(way)]
    if values.get("anonymous", bool):
        ways.append("anonymous")
    if len(ways) > 1:
        what = f"`{ways[0]}` and `{ways[1]}` are two ways to give keys"
        out.mistake(values.key_of(ways[1]), what, "keep one of the two")
    endpoint = values.get("endpoint", str)
    return StorageSettings(
        endpoint=None if endpoint is None else re.sub("/+$", "", endpoint),
        region=values.get("region", str),
        provider=values.get("provider", str),
        credentials=values.get("credentials", str),
        profile=values.get("profile", str),
        access_key=values.get("access_key", str),
        secret_key=values.get("secret_key", str),
        rclone_config=values.get("rclone_config", str),
        remote=values.get("remote", str),
        anonymous=values.get("anonymous", bool) or False,
    )
