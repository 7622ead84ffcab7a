"""How nodes reach the buckets of a task: what rclone is told, and by which names it finds keys.

Keys themselves are in none of it. rclone.org/docs describes its variables (`RCLONE_CONFIG_NAME_OPTION`) and each store.
"""

from collections.abc import Collection, Mapping

from launcher.core.model.buckets import BucketMount, ObjectStore, StorageSettings, settings_of
from launcher.core.model.task import Task
from launcher.runtime.protocol_buckets import BucketSpec, BucketsSpec

_REMOTE = "b"
_PREFIX = "RCLONE_CONFIG_B_"
_TYPES = {ObjectStore.GCS: "google cloud storage", ObjectStore.AZURE: "azureblob"}
_PROVIDERS = {ObjectStore.R2: "Cloudflare", ObjectStore.COS: "IBMCOS"}
_COS = "https://s3.{region}.cloud-object-storage.appdomain.cloud"
_COREWEAVE = "https://cwobject.com"
_NEBIUS = "https://storage.{region}.nebius.cloud"


def buckets_spec(
    task: Task,
    storage: Mapping[str, StorageSettings],
    env: Mapping[str, str],
    programs: Mapping[str, str],
    *,
    allow_other: bool = False,
) -> BucketsSpec:
    """Return what a node is told of a task's buckets.

    `env` are the inventory's variables of the node, `programs` the hashes of rclone by machine architecture.
    """
    buckets = [
        bucket_spec(to, mount, settings_of(storage, mount), task.secrets) for to, mount in task.bucket_mounts.items()
    ]
    names = {source for one in buckets for source in one["variables"].values()}
    return {
        "buckets": buckets,
        "env": {name: value for name, value in env.items() if name in names},
        "rclone": dict(programs),
        "allow_other": allow_other,
    }


def bucket_spec(to: str, mount: BucketMount, settings: StorageSettings, secrets: Collection[str] = ()) -> BucketSpec:
    """Return what a node is told of one bucket; `secrets` are the names of those of the task."""
    path = f"{mount.bucket}/{mount.prefix}".rstrip("/")
    spec: BucketSpec = {
        "to": to,
        "url": mount.url,
        "mode": mount.mode.value,
        "remote": f"{_REMOTE}:{path}",
        "web": mount.store is ObjectStore.WEB,
        "create": mount.create,
        "settings": {},
        "files": {},
        "variables": {},
    }
    if mount.store is ObjectStore.WEB:
        return {**spec, "remote": mount.url}
    if settings.remote is not None:
        config = settings.rclone_config or ""
        return {**spec, "remote": f"{settings.remote}:{path}", "files": {"RCLONE_CONFIG": config}}
    if mount.store is ObjectStore.GCS:
        return _gcs(spec, settings)
    if mount.store is ObjectStore.AZURE:
        return _azure(spec, mount, settings)
    return _s3(spec, mount, settings, secrets)


def _gcs(spec: BucketSpec, settings: StorageSettings) -> BucketSpec:
    own = {"TYPE": _TYPES[ObjectStore.GCS], "BUCKET_POLICY_ONLY": "true"}
    if settings.anonymous:
        own["ANONYMOUS"] = "true"
    elif settings.credentials is None:
        own["ENV_AUTH"] = "true"
    if settings.endpoint:
        own["ENDPOINT"] = settings.endpoint
    files = {f"{_PREFIX}SERVICE_ACCOUNT_FILE": settings.credentials} if settings.credentials else {}
    return {**spec, "settings": _prefixed(own), "files": files}


def _azure(spec: BucketSpec, mount: BucketMount, settings: StorageSettings) -> BucketSpec:
    own = {"TYPE": _TYPES[ObjectStore.AZURE], "ACCOUNT": mount.place}
    if settings.credentials is None and settings.secret_key is None and not settings.anonymous:
        own["ENV_AUTH"] = "true"
    if settings.endpoint:
        own["ENDPOINT"] = settings.endpoint
    files = {f"{_PREFIX}SERVICE_PRINCIPAL_FILE": settings.credentials} if settings.credentials else {}
    keys = {f"{_PREFIX}KEY": settings.secret_key} if settings.secret_key else {}
    return {**spec, "settings": _prefixed(own), "files": files, "variables": keys}


def _s3(spec: BucketSpec, mount: BucketMount, settings: StorageSettings, secrets: Collection[str]) -> BucketSpec:
    region = settings.region or mount.place
    default = {
        ObjectStore.COS: _COS.format(region=region),
        ObjectStore.NEBIUS: _NEBIUS.format(region=region),
        ObjectStore.COREWEAVE: _COREWEAVE,
    }
    endpoint = settings.endpoint or default.get(mount.store)
    provider = settings.provider or _PROVIDERS.get(mount.store) or ("Other" if endpoint else "AWS")
    own = {"TYPE": "s3", "PROVIDER": provider}
    if endpoint:
        own["ENDPOINT"] = endpoint
    if region:
        own["REGION"] = region
    if not settings.anonymous:
        own["ENV_AUTH"] = "true"
    if not mount.create:
        own["NO_CHECK_BUCKET"] = "true"
    plain = {"AWS_PROFILE": settings.profile} if settings.profile else {}
    files = {"AWS_SHARED_CREDENTIALS_FILE": settings.credentials} if settings.credentials else {}
    names = {"AWS_ACCESS_KEY_ID": settings.access_key, "AWS_SECRET_ACCESS_KEY": settings.secret_key}
    keys = {name: source for name, source in names.items() if source is not None}
    if not keys and not settings.credentials and not settings.anonymous:
        own_names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        keys = {name: name for name in own_names if name in secrets}
    return {**spec, "settings": {**_prefixed(own), **plain}, "files": files, "variables": keys}


def _prefixed(options: Mapping[str, str]) -> dict[str, str]:
    return {f"{_PREFIX}{name}": value for name, value in options.items()}
