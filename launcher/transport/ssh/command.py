r"""A command as one line for sshd, which hands it to the login shell.

Quoting happens here and nowhere else. The login shell may be csh or fish, whose quotes are not those of sh: it is given
letters, digits and octal escapes alone, and starts /bin/sh on what they mean.
"""

import os
import re
import secrets
import shlex
from collections.abc import Sequence

KILLED = 128 + 9

LOGIN_S = 20.0
"""Seconds for the start-up files of a login shell; one on a slow file system takes ten."""

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")
_PLAIN = re.compile(rb"[^A-Za-z0-9 _./=,:+@-]")

# `timeout` puts the command into a process group and kills all of that: sshd would leave it running when the connection
# ends. Without the sh around it, sshd would report the signal and no status: sh exits with 128 + n. What sh prints on
# a signal ("Killed") is dropped, the command's own stderr (3) is as it was.
_SCRIPT = (
    "{place}printf '\\036{mark}\\036'; exec 3>&2 2>/dev/null; "
    "(exec timeout -s KILL {limit:.3f} {command} 2>&3 3>&-); exit $?"
)


def new_mark() -> str:
    """Return a mark that nobody can have printed before.

    It stands in stdout before a command's own output: what start-up files of a login shell print lies before it.
    """
    return secrets.token_hex(8)


def line(argv: Sequence[str], limit: float, mark: str, user: str) -> str:
    """Return the line that runs `argv` for `limit` seconds at most, after its mark.

    Then everything that it started is killed.
    """
    return _sh(_SCRIPT.format(place=_place(user), mark=mark, limit=max(limit, 0.001), command=shlex.join(argv)))


def kept(argv: Sequence[str], mark: str, user: str) -> str:
    """Return the line that becomes `argv`, after its mark, while its stdin is open."""
    return _sh(f"{_place(user)}printf '\\036{mark}\\036'; exec {shlex.join(argv)}")


def terminal(argv: Sequence[str], user: str) -> str:
    """Return the line that becomes `argv` at a terminal, without a limit."""
    return _sh(f"{_place(user)}exec {shlex.join(argv)}")


def _place(user: str) -> str:
    """Return what undoes a start-up file that leaves the home folder, or loses the system's programs."""
    home = f"cd ~{user} 2>/dev/null; " if _USER.fullmatch(user) else ""
    return f"{home}command -v timeout >/dev/null || PATH=$PATH:/usr/bin:/bin; "


def _sh(script: str) -> str:
    plain = _PLAIN.sub(lambda found: b"\\0%03o" % found[0][0], os.fsencode(script)).decode("ascii")
    return f"""exec /bin/sh -c 'eval "$(printf %b "{plain}")"'"""


def output(stdout: bytes, mark: str) -> bytes | None:
    """Return what the command itself wrote; None where it has not been started."""
    _, found, own = stdout.partition(b"\x1e%s\x1e" % mark.encode())
    return own if found else None


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
