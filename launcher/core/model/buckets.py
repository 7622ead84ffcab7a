"""Buckets that a task has on its nodes, and how the nodes of an inventory reach them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class MountMode(Enum):
    """How nodes see a bucket.

    COPY: its files are copied before `setup`. MOUNT: files are read and written through a mount, writes are up when the
    file is closed. MOUNT_CACHED: writes go to the node's disk first, and are up when the run ends.
    """

    COPY = "COPY"
    MOUNT = "MOUNT"
    MOUNT_CACHED = "MOUNT_CACHED"


class ObjectStore(Enum):
    """The kind of a store, by the scheme of its URLs."""

    S3 = "s3"
    GCS = "gs"
    R2 = "r2"
    COS = "cos"
    NEBIUS = "nebius"
    COREWEAVE = "cw"
    VAST = "vastdata"
    OCI = "oci"
    AZURE = "azure"
    WEB = "https"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketMount:
    """A bucket, a part of one, or with WEB one file of a server, for a path on the nodes.

    `place` is the account of Azure, or the region that the URL of COS and OCI names. `uploads` are local paths that the
    launching machine copies there before nodes use it; with `create` the bucket is made if there is none.
    """

    url: str
    store: ObjectStore
    bucket: str = ""
    prefix: str = ""
    place: str = ""
    mode: MountMode = MountMode.COPY
    uploads: tuple[str, ...] = ()
    create: bool = False

    @property
    def mounted(self) -> bool:
        """Whether it is mounted, not copied."""
        return self.mode is not MountMode.COPY


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """How the nodes of an inventory reach a store, or one bucket.

    Files and variables are those of the node: `credentials` is a file with keys, in the format of the store's own
    tools, and `profile` the part of it. `access_key` and `secret_key` name variables. `remote` names a section of
    `rclone_config`, a file of rclone, which then says everything. `anonymous`: no keys are needed.
    """

    endpoint: str | None = None
    region: str | None = None
    provider: str | None = None
    credentials: str | None = None
    profile: str | None = None
    access_key: str | None = None
    secret_key: str | None = None
    rclone_config: str | None = None
    remote: str | None = None
    anonymous: bool = False


_NEEDED = {
    ObjectStore.R2: "endpoint: https://ACCOUNT.r2.cloudflarestorage.com",
    ObjectStore.VAST: "endpoint: https://HOST",
    ObjectStore.NEBIUS: "region: REGION",
}


def storage_key(mount: BucketMount) -> str:
    """Return the name of a bucket's own settings: its URL without a path."""
    at = f"{mount.place}/" if mount.store is ObjectStore.AZURE else ""
    return f"{mount.store.value}://{at}{mount.bucket}"


def settings_of(storage: Mapping[str, StorageSettings], mount: BucketMount) -> StorageSettings:
    """Return the settings for a bucket: its own, else those of its store, else the defaults."""
    own = storage.get(storage_key(mount)) or storage.get(mount.store.value)
    return own or StorageSettings()


def why_unreachable(mount: BucketMount, settings: StorageSettings) -> str:
    """Return what `storage:` of an inventory lacks for a bucket; empty where it says enough."""
    store = mount.store
    if settings.remote is not None or store is ObjectStore.WEB or settings.endpoint is not None:
        return ""
    if store is ObjectStore.OCI:
        return "`rclone_config` and `remote`"
    if store in _NEEDED and not (store is ObjectStore.NEBIUS and settings.region):
        return f"`{_NEEDED[store]}`"
    return ""
