"""Buckets on a node: what is copied and mounted there, and how mounts stand.

A part of `protocol.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict, final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import NotRequired

BUCKETS = "buckets.json"
"""The file in a run's folder that lists its buckets: no keys, only the names of what holds them."""


class BucketSpec(TypedDict):
    """A bucket, or a file of a web server, for a path on the node.

    `settings` are variables of rclone, `files` those whose value is a path on the node, and `variables` those that are
    given the value of a variable of the node or of a secret of the task.
    """

    to: str  # as in a manifest: absolute, in `~/`, or relative to the workdir
    url: str
    mode: Literal["COPY", "MOUNT", "MOUNT_CACHED"]
    remote: str  # as rclone names it
    web: bool
    create: bool
    settings: dict[str, str]
    files: dict[str, str]
    variables: dict[str, str]


class MissingKeyError(Exception):
    """The variable `name`, which holds a key of a bucket, is nowhere."""

    def __init__(self, name: str, url: str) -> None:
        super().__init__(f"`{name}`, which holds a key for `{url}`, is not set on the node")
        self.name = name


def rclone_environment(
    spec: BucketSpec, base: Mapping[str, str], known: Mapping[str, str], expanded: Callable[[str], str]
) -> dict[str, str]:
    """Return the environment of rclone for a bucket; MissingKeyError.

    `known` are the variables and secrets that may hold keys. Variables of rclone's own are not taken from the login:
    they would change what is asked for. `expanded` returns the path of a file below a home (`os.path.expanduser`).
    """
    env = {name: value for name, value in base.items() if not name.startswith("RCLONE_")}
    if bundle := env.pop("AWS_CA_BUNDLE", None):  # older releases refuse to start with it
        env["RCLONE_CA_CERT"] = bundle
    for name, source in spec["variables"].items():
        if source not in known:
            raise MissingKeyError(source, spec["url"])
        env[name] = known[source]
    files = {name: expanded(path) for name, path in spec["files"].items()}
    return {"RCLONE_CONFIG": "/dev/null", **env, **spec["settings"], **files}


class BucketsSpec(TypedDict):
    """`buckets.json`: all buckets of a node."""

    buckets: list[BucketSpec]
    env: dict[str, str]  # variables of the inventory that name keys
    rclone: dict[str, str]  # hashes of the programs that can be sent, by machine architecture
    allow_other: bool  # programs of other users on the node may use the mounts


class MountRow(TypedDict):
    """How a mount stands, and what of its writes is not in the bucket yet."""

    to: str
    url: str
    up: bool
    message: str  # why it is not up; what else people should know
    unsent: int  # files
    unsent_bytes: int
    names: list[str]  # some of these files


@final
class MountsFile(TypedDict):
    """`mounts.json`: what the monitor of mounts says of them."""

    mounts: list[MountRow]
    failed: NotRequired[str]  # no mount can be made here
