"""Copies the buckets of a node and waits for its mounts, before `setup` runs."""

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from . import agent_environment, bucket_commands, bucket_copy, environment, files, mounts_file, stage
from .protocol_buckets import BUCKETS, BucketSpec, BucketsSpec, MissingKeyError, rclone_environment
from .protocol_rclone import CopyError
from .rclone import NoRcloneError, Rclone

FAILED = 75
"""The exit status where a bucket cannot be had."""
MOUNTED_S = 180.0
"""Seconds for all mounts to be up, once all copies are made."""


class Given:
    """What programs for buckets start with: asked of the agent."""

    def __init__(self, folder: Path) -> None:
        agent = files.agent_spec(folder)
        if agent is None:
            raise OSError(f"no `agent.json` in `{folder}`")
        self.agent = agent
        given = agent_environment.ask(agent)
        self.spec = cast("BucketsSpec", files.read(folder / BUCKETS))
        self.base = {**given["base"], environment.MARK: os.environ[environment.MARK]}
        self.umask = given.get("umask", 0o022)
        secrets = files.read(Path(given["secrets"])) or {}
        self.known: Mapping[str, str] = {**self.base, **self.spec["env"], **secrets}
        self.program = Rclone(folder, self.spec["rclone"], self.base.get("PATH", os.defpath)).find()

    def env(self, bucket: BucketSpec) -> dict[str, str]:
        """Return the environment of rclone for a bucket; MissingKeyError."""
        return rclone_environment(bucket, self.base, self.known, os.path.expanduser)


def main(argv: list[str]) -> int:
    """Copy and wait, then become the command that follows: `bucket_setup FOLDER [COMMAND...]`."""
    folder = Path(argv[0])
    try:
        given = Given(folder)
        for bucket in given.spec["buckets"]:
            if bucket["mode"] == "COPY":
                _copy(folder, given, bucket)
    except CopyError as error:
        _show(str(error))
        return FAILED
    except (NoRcloneError, MissingKeyError, OSError, ValueError) as error:
        _show(f"cannot copy buckets: {error}")
        return FAILED
    if any(bucket["mode"] != "COPY" for bucket in given.spec["buckets"]):
        stage.write(folder, "mounting buckets")
        if message := _wait(folder):
            _show(f"cannot mount buckets: {message}")
            return FAILED
    stage.write(folder, "")
    if argv[1:]:
        os.execvp(argv[1], argv[1:])
    return 0


def _copy(folder: Path, given: Given, bucket: BucketSpec) -> None:
    """Copy a bucket; CopyError, whose message names it, OSError."""
    to, url = bucket_commands.target(folder, bucket["to"]), bucket["url"]
    stage.write(folder, f"copying {url}")

    def tell(copied: int, total: int, more: str) -> None:
        stage.write(folder, f"copying {url}{more}", copied, total)

    try:
        bucket_copy.copy(given.program, bucket, to, given.env(bucket), given.umask, tell, _show)
    except CopyError as error:
        raise CopyError(f"cannot copy {url} to {to}: {error}") from None
    _show(f"copied {url} to {to}")


def _show(message: str) -> None:
    print(message, flush=True)


def _wait(folder: Path) -> str:
    """Wait until all mounts are up; return why they are not, empty once they are."""
    deadline, pause = time.monotonic() + MOUNTED_S, threading.Event()
    message = "their monitor does not say anything"
    while time.monotonic() < deadline:
        found = mounts_file.read(folder)
        if found is not None:
            down = [row for row in found["mounts"] if not row["up"]]
            if not down and "failed" not in found:
                return ""
            message = found.get("failed") or "; ".join(f"{row['to']}: {row['message']}" for row in down)
            if "failed" in found:
                return message
        pause.wait(0.2)
    return f"{message} (after {MOUNTED_S:.0f} s)"
