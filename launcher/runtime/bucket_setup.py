"""Copies the buckets of a node and waits for its mounts, before `setup` runs."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from . import bucket_commands, environment, files, interpreter, mounts_file, rpc
from .protocol import PROTOCOL, EnvironmentReply
from .protocol_buckets import BUCKETS, BucketSpec, BucketsSpec, MissingKeyError, rclone_environment
from .rclone import NoRcloneError, Rclone

FAILED = 75
"""The exit status where a bucket cannot be had."""
MOUNTED_S = 180.0
"""Seconds for all mounts to be up, once all copies are made."""
TAIL = 5
"""Lines of rclone's own messages that are shown."""


class Given:
    """What programs for buckets start with: asked of the agent."""

    def __init__(self, folder: Path) -> None:
        agent = files.agent_spec(folder)
        if agent is None:
            raise OSError(f"no `agent.json` in `{folder}`")
        self.agent = agent
        question = {"op": "environment", "protocol": PROTOCOL}
        given = cast("EnvironmentReply", rpc.ask(Path(agent["socket"]), question, timeout=10))
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
            if bucket["mode"] == "COPY" and (code := _copy(folder, given, bucket)):
                return code
    except (NoRcloneError, MissingKeyError, OSError) as error:
        print(f"cannot copy buckets: {error}", flush=True)
        return FAILED
    if any(bucket["mode"] != "COPY" for bucket in given.spec["buckets"]):
        (folder / interpreter.STAGE).write_text("mounting buckets")
        if message := _wait(folder):
            print(f"cannot mount buckets: {message}", flush=True)
            return FAILED
    (folder / interpreter.STAGE).unlink(missing_ok=True)
    if argv[1:]:
        os.execvp(argv[1], argv[1:])
    return 0


def _copy(folder: Path, given: Given, bucket: BucketSpec) -> int:
    """Copy a bucket; return 0, or the exit status of a failure, whose reason is printed."""
    to = bucket_commands.target(folder, bucket["to"])
    Path(to).parent.mkdir(parents=True, exist_ok=True)
    told: list[str] = []
    _tell(folder, f"copying {bucket['url']}")
    argv = bucket_commands.copy(given.program, bucket, to)
    with subprocess.Popen(
        argv,
        env=given.env(bucket),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        umask=given.umask,
        text=True,
        errors="replace",
    ) as running:
        assert running.stderr is not None
        for line in running.stderr:
            _heed(line, told, lambda done: _tell(folder, f"copying {bucket['url']}: {done}"))
    if running.returncode != 0:
        print(f"cannot copy {bucket['url']} to {to}: rclone ended with {running.returncode}")
        print(*told[-TAIL:], sep="\n", flush=True)
        return FAILED
    print(f"copied {bucket['url']} to {to}", flush=True)
    return 0


def _heed(line: str, told: list[str], tell: Any) -> None:
    """Read a line of rclone's log: keep errors, and tell how far it is."""
    try:
        entry = json.loads(line)
        level, stats = entry.get("level"), entry.get("stats")
    except (ValueError, AttributeError):
        told.append(line.rstrip()[:500])
        return
    if isinstance(stats, dict):
        tell(progress(stats))
    elif level in ("error", "warning", "fatal", "critical"):
        what = f"{entry['object']}: " if "object" in entry else ""
        told.append(f"{what}{str(entry.get('msg', '')).strip()}"[:500])
        print(told[-1], flush=True)
        del told[:-TAIL]


def progress(stats: Mapping[str, Any]) -> str:
    """Return how far a copy is, from the numbers that rclone logs."""
    done, size = stats.get("transfers", 0), stats.get("totalTransfers", 0)
    return f"{done} of {size} files, {amount(stats.get('bytes', 0))} of {amount(stats.get('totalBytes', 0))}"


def amount(size: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit in ("B", "KB") else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _tell(folder: Path, message: str) -> None:
    (folder / interpreter.STAGE).write_text(message)


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
