r"""A command as one line for sshd, which hands it to the login shell.

Quoting happens here and nowhere else. The login shell may be csh or fish, whose quotes are not those of sh: it is given
letters, digits and octal escapes alone, and starts /bin/sh on what they mean.
"""

import os
import re
import shlex
from collections.abc import Sequence

KILLED = 128 + 9

MARK = b"\x1envlaunch\x1e"
"""Stands in stdout before the command's own output: what start-up files of a login shell print lies before it."""

_PLAIN = re.compile(rb"[^A-Za-z0-9 _./=,:+@-]")

# `timeout` puts the command into a process group and kills all of that: sshd would leave it running when the connection
# ends. Without the sh around it, sshd would report the signal and no status: sh exits with 128 + n. What sh prints on
# a signal ("Killed") is dropped, the command's own stderr (3) is as it was.
_SCRIPT = (
    "printf '\\036nvlaunch\\036'; exec 3>&2 2>/dev/null; "
    "(exec timeout -s KILL {limit:.3f} {command} 2>&3 3>&-); exit $?"
)


def line(argv: Sequence[str], limit: float) -> str:
    """Return the line that runs `argv` for `limit` seconds at most.

    Then everything that it started is killed.
    """
    return _sh(_SCRIPT.format(limit=max(limit, 0.001), command=shlex.join(argv)))


def kept(argv: Sequence[str]) -> str:
    """Return the line that becomes `argv` while its stdin is open.

    Its output is marked as `line` marks it.
    """
    return _sh(f"printf '\\036nvlaunch\\036'; exec {shlex.join(argv)}")


def terminal(argv: Sequence[str]) -> str:
    """Return the line that becomes `argv` at a terminal, without a limit."""
    return _sh(f"exec {shlex.join(argv)}")


def _sh(script: str) -> str:
    plain = _PLAIN.sub(lambda found: b"\\0%03o" % found[0][0], os.fsencode(script)).decode("ascii")
    return f"""exec /bin/sh -c 'eval "$(printf %b "{plain}")"'"""


def output(stdout: bytes) -> bytes | None:
    """Return what the command itself wrote; None where it was never started."""
    _, mark, own = stdout.partition(MARK)
    return own if mark else None


# Reads `MODE SIZE LENGTH\n`, a name of LENGTH bytes and SIZE bytes of content for each file, then `end`. Nothing is
# renamed to its place before the end was read, so that a lost connection leaves nothing behind. It imports
# only what Python has loaded anyway: this runs once on every node of a launch.
UNPACK = """
import os, sys
source, target = sys.stdin.buffer, sys.argv[1]
os.umask(0o077)
made, staging = [], "%s/.put.%d" % (target, os.getpid())
def need(path):
    if path and not os.path.isdir(path):
        need(os.path.dirname(path))
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
try:
    need(target)
    need(staging)
    while (head := source.readline()) != b"end\\n":
        if not head:
            raise EOFError("the stream ended half-way")
        mode, size, length = map(int, head.split())
        name = os.fsdecode(source.read(length))
        own = "%s/%d" % (staging, len(made))
        with open(own, "wb", buffering=0) as file:
            os.fchmod(file.fileno(), mode)
            while size:
                part = source.read(min(size, 1 << 20))
                if not part:
                    raise EOFError("the stream ended half-way")
                size -= len(part)
                while part:
                    part = part[file.write(part):]
        made.append((own, os.path.join(target, name)))
    for own, final in made:
        need(os.path.dirname(final))
        os.replace(own, final)
    made.clear()
except (OSError, EOFError) as error:
    sys.exit("%s" % (getattr(error, "strerror", None) or error))
finally:
    if os.path.isdir(staging):
        for name in os.listdir(staging):
            os.unlink(os.path.join(staging, name))
        os.rmdir(staging)
"""
