"""URLs of buckets, and of single files on web servers, as SkyPilot writes them."""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from launcher.core.model.buckets import BucketMount, MountMode, ObjectStore
from launcher.core.model.secret_words import is_secret_name

SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*://"
STORES = {
    "s3": ObjectStore.S3,
    "gcs": ObjectStore.GCS,
    "azure": ObjectStore.AZURE,
    "r2": ObjectStore.R2,
    "ibm": ObjectStore.COS,
    "oci": ObjectStore.OCI,
    "nebius": ObjectStore.NEBIUS,
    "coreweave": ObjectStore.COREWEAVE,
    "vastdata": ObjectStore.VAST,
}
"""The names of stores in `store:` of SkyPilot (sky/data/storage.py, StoreType)."""

# The rules of S3 and GCS together, and capitals, dots and underscores, which some on-premises stores accept.
BUCKET = r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}[A-Za-z0-9]"
_AZURE = re.compile(r"([a-z0-9]{3,24})\.blob\.core\.windows\.net")
_PLAIN = {one.value: one for one in ObjectStore if one not in (ObjectStore.WEB, ObjectStore.AZURE)}


class BucketUrlError(Exception):
    """A URL that is none of a bucket or a file; `hint` says what to write."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


@dataclass(frozen=True, slots=True)
class _Parts:
    host: str
    path: str


def is_url(text: str) -> bool:
    """Whether the source of a mount is a URL, not a local path."""
    return re.match(SCHEME, text) is not None


def read_url(text: str, mode: MountMode) -> BucketMount:
    """Return the bucket or file of a URL; BucketUrlError."""
    scheme = text.partition("://")[0].lower()
    if scheme in ("http", "https"):
        return _web(text, mode)
    store = _PLAIN.get(scheme)
    if store is None:
        raise BucketUrlError(
            f"`{scheme}://` is not a store that nvlaunch knows",
            f"use {', '.join(f'`{name}://`' for name in _PLAIN)}, or `https://`",
        )
    parts = _parts(text)
    bucket, place, path = parts.host, "", parts.path
    if store is ObjectStore.COS:
        place, (bucket, _, path) = parts.host, parts.path.partition("/")
    elif store is ObjectStore.OCI:
        bucket, _, place = parts.host.partition("@")
    if not re.fullmatch(BUCKET, bucket):
        shape = {ObjectStore.COS: "cos://REGION/BUCKET"}.get(store, f"{scheme}://BUCKET/PREFIX")
        raise BucketUrlError(f"`{text}` names no bucket", f"write `{shape}`")
    return BucketMount(url=text, store=store, bucket=bucket, prefix=_prefix(text, path), place=place, mode=mode)


def named_bucket(name: str, store: ObjectStore, mode: MountMode) -> BucketMount:
    """Return the bucket of a name, which is made if there is none; BucketUrlError."""
    if not re.fullmatch(BUCKET, name):
        hint = "use 3 to 63 lower-case letters, digits and `-`; begin and end with a letter or a digit"
        raise BucketUrlError(f"`{name}` is not the name of a bucket", hint)
    if store in (ObjectStore.AZURE, ObjectStore.COS):
        shape = {ObjectStore.COS: "cos://REGION/BUCKET"}.get(store, "https://ACCOUNT.blob.core.windows.net/CONTAINER")
        raise BucketUrlError(f"`name: {name}` does not say where the bucket is", f"write `source: {shape}` instead")
    return BucketMount(url=f"{store.value}://{name}", store=store, bucket=name, mode=mode, create=True)


def _web(text: str, mode: MountMode) -> BucketMount:
    """Return a container of Azure, or one file."""
    try:
        split = urlsplit(text)
        host, user = split.hostname or "", split.username
    except ValueError:
        raise BucketUrlError(f"`{text}` is not a URL", "write `https://HOST/PATH`") from None
    if user is not None or any(map(_is_secret, (name for name, _ in parse_qsl(split.query, keep_blank_values=True)))):
        bare = f"{split.scheme}://{host}{split.path}"
        raise BucketUrlError(
            f"the URL `{bare}` holds a secret, and is shown", "keep keys in `storage:` of the inventory"
        )
    if azure := _AZURE.fullmatch(host):
        container, _, path = unquote(split.path).strip("/").partition("/")
        if not re.fullmatch(BUCKET, container):
            raise BucketUrlError(f"`{text}` names no container", f"write `https://{host}/CONTAINER`")
        store = ObjectStore.AZURE
        return BucketMount(
            url=text, store=store, bucket=container, prefix=_prefix(text, path), place=azure[1], mode=mode
        )
    if mode is not MountMode.COPY:
        raise BucketUrlError(f"`{text}` is a file of a web server, which cannot be mounted", "use `mode: COPY`")
    if not host or not split.path.rsplit("/", 1)[-1]:
        raise BucketUrlError(f"`{text}` names no file", "write `https://HOST/PATH/FILE`")
    return BucketMount(url=text, store=ObjectStore.WEB, mode=mode)


def _is_secret(name: str) -> bool:
    """Whether a part of a query is a key: signed URLs are."""
    return is_secret_name(name) or "signature" in name.lower() or name.lower() == "sig"


def _parts(text: str) -> _Parts:
    host, _, path = text.partition("://")[2].partition("/")
    return _Parts(host, path)


def _prefix(text: str, path: str) -> str:
    prefix = path.strip("/")
    if any(ord(letter) < 32 for letter in prefix) or ".." in prefix.split("/"):
        raise BucketUrlError(f"`{text}` has an impossible path", "write the path as the store lists it")
    return prefix
