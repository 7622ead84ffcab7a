"""Local files that go to a bucket once, from this machine, before nodes use it: the bucket has one writer."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

from launcher.core.model.buckets import BucketMount, settings_of
from launcher.core.model.run import Run
from launcher.errors import LaunchError
from launcher.runtime.protocol_buckets import BucketSpec, MissingKeyError, rclone_environment
from launcher.runtime.protocol_rclone import LOGGED, CopyError, CopyLog, copied
from launcher.setup.buckets import bucket_spec
from launcher.transport.upload import rclone

_LIMITS = ("--contimeout", "10s", "--timeout", "60s")
_OPTIONS = (*_LIMITS, "--checksum", "--transfers", "16", "--retries", "5", *LOGGED)

Tell: TypeAlias = Callable[[BucketMount, str, int, int, str], object]
"""Is given a bucket, a source, the bytes that are uploaded and those that there are, and what else is to be said."""


def upload(run: Run, secrets: Mapping[str, str], tell: Tell) -> None:
    """Upload the local sources of a run's buckets; what is there already is not sent again.

    Keys are looked up here by the names that `storage:` gives them, in the secrets of the task, and else among the
    files and variables of this machine. LaunchError.
    """
    for to, mount in run.task.bucket_mounts.items():
        if mount.uploads:
            _upload(
                mount, bucket_spec(to, mount, settings_of(run.fleet.storage, mount), run.task.secrets), secrets, tell
            )


def _upload(mount: BucketMount, spec: BucketSpec, secrets: Mapping[str, str], tell: Tell) -> None:
    program = rclone.here()
    if program is None:
        hints = ("install `nvlaunch[buckets]` here, or rclone",)
        raise LaunchError(f"cannot upload to {mount.url}: there is no rclone on this machine", hints=hints)
    env = _environment(mount, spec, secrets)
    for path in map(Path, mount.uploads):
        below = f"/{path.name}" if len(mount.uploads) > 1 and path.is_dir() else ""
        argv = [program, "copy", *_OPTIONS, "--", str(path), f"{spec['remote']}{below}"]
        log = CopyLog(partial(tell, mount, str(path)), lambda _: None)
        try:
            code = copied(argv, env, log)
        except (OSError, CopyError) as error:
            raise LaunchError(f"cannot upload `{path}` to {mount.url}: {error}") from error
        if code != 0:
            hints = ("keys and endpoint are those of `storage:` in the inventory, looked up on this machine",)
            why = log.last[:300] or f"exit status {code}"
            raise LaunchError(f"cannot upload `{path}` to {mount.url}: {why}", hints=hints)


def _environment(mount: BucketMount, spec: BucketSpec, secrets: Mapping[str, str]) -> dict[str, str]:
    try:
        return rclone_environment(spec, os.environ, {**os.environ, **secrets}, os.path.expanduser)
    except MissingKeyError as error:
        hints = (f"set `{error.name}` here, or give it as a secret of the task",)
        what = f"cannot upload to {mount.url}: `{error.name}`, which holds a key, is not set"
        raise LaunchError(what, hints=hints) from None
