"""Whether a bucket can be used: asked before it is mounted, since a mount is made without asking the store."""

import re
import subprocess
from collections.abc import Mapping

from . import bucket_commands
from .protocol_buckets import BucketSpec

LOOK_S = 45.0
"""Seconds to list a bucket. rclone gives up before if no byte comes: what still runs then is merely long."""
NOT_FOUND = 3
LONGEST = 300
_SILENCE = ("timeout awaiting response headers", "i/o timeout", "deadline exceeded")
"""What Go says of a server that takes a connection and sends nothing."""
_STAMP = re.compile(r"^\d{4}/\d\d/\d\d [\d:]+ [A-Z]+ *: ")


def why_unusable(program: str, spec: BucketSpec, env: Mapping[str, str]) -> str:
    """Return why a bucket cannot be used; an empty text where it can. One that is to be made is made."""
    if spec["create"] and (problem := _ran(bucket_commands.make(program, spec), spec, env)):
        return problem
    return _ran(bucket_commands.look(program, spec), spec, env)


def plain(line: str) -> str:
    """Return a line of rclone's log without its time, cut."""
    return _STAMP.sub("", line)[:LONGEST]


def _ran(argv: list[str], spec: BucketSpec, env: Mapping[str, str]) -> str:
    try:
        ended = subprocess.run(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=LOOK_S,
        )
    except subprocess.TimeoutExpired as error:
        said = (error.stderr or b"").decode(errors="replace").splitlines()
        return f"no answer within {LOOK_S:.0f} s: {plain(said[-1])}" if said else ""
    prefix = "/" in spec["remote"].partition(":")[2]
    if ended.returncode == 0 or (ended.returncode == NOT_FOUND and (spec["create"] or prefix)):
        return ""  # rclone cannot tell a prefix without files yet from a bucket that is not there
    said = [line for line in ended.stderr.splitlines() if line.strip()] or [f"rclone ended with {ended.returncode}"]
    silent = "the store does not answer: " if any(one in said[-1] for one in _SILENCE) else ""
    return f"cannot list {spec['url']}: {silent}{plain(said[-1])}"
