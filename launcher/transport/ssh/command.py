r"""A command as one line for sshd, which hands it to the login shell.

Quoting happens here and nowhere else. The login shell may be csh or fish, whose quotes are not those of sh: it is given
letters, digits and octal escapes alone, and starts /bin/sh on what they mean.
"""

import os
import re
import secrets
import shlex
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache

KILLED = 128 + 9

LOGIN_S = 20.0
"""Seconds for the start-up files of a login shell; one on a slow file system takes ten."""

LONG = 500
"""Characters of a word, or bytes of a file, that is a program of ours: the same for all machines."""

_LEVEL = 6

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")
_PLAIN = re.compile(rb"[^A-Za-z0-9 _./=,:+@-]")

# `timeout` puts the command into a process group and kills all of that: sshd would leave it running when the connection
# ends. Without the sh around it, sshd would report the signal and no status: sh exits with 128 + n. What sh prints on
# a signal ("Killed") is dropped, the command's own stderr (3) is as it was.
_BEGINNING = "{place}printf '\\036{mark}\\036'; exec 3>&2 2>/dev/null; (exec timeout -s KILL {limit:.3f} "
_END = " 2>&3 3>&-); exit $?"


def new_mark() -> str:
    """Return a mark that nobody can have printed before.

    It stands in stdout before a command's own output: what start-up files of a login shell print lies before it.
    """
    return secrets.token_hex(8)


def line(argv: Sequence[str], limit: float, mark: str, user: str) -> str:
    """Return the line that runs `argv` for `limit` seconds at most, after its mark.

    Then everything that it started is killed.
    """
    before = _BEGINNING.format(place=_place(user), mark=mark, limit=max(limit, 0.001))
    return _sh(_escaped(before), _command(argv), _escaped(_END))


def kept(argv: Sequence[str], mark: str, user: str) -> str:
    """Return the line that becomes `argv`, after its mark, while its stdin is open."""
    return _sh(_escaped(f"{_place(user)}printf '\\036{mark}\\036'; exec "), _command(argv))


def terminal(argv: Sequence[str], user: str) -> str:
    """Return the line that becomes `argv` at a terminal, without a limit."""
    return _sh(_escaped(f"{_place(user)}exec "), _command(argv))


def _place(user: str) -> str:
    """Return what undoes a start-up file that leaves the home folder, or loses the system's programs."""
    home = f"cd ~{user} 2>/dev/null; " if _USER.fullmatch(user) else ""
    return f"{home}command -v timeout >/dev/null || PATH=$PATH:/usr/bin:/bin; "


def _sh(*escaped: str) -> str:
    return f"""exec /bin/sh -c 'eval "$(printf %b "{"".join(escaped)}")"'"""


def _command(argv: Sequence[str]) -> str:
    return " ".join(_long_word(word) if len(word) >= LONG else _escaped(shlex.quote(word)) for word in argv)


@lru_cache(maxsize=32)
def _long_word(word: str) -> str:
    """Return a word as `_escaped` does; once for the programs that thousands of machines are sent."""
    return _escaped(shlex.quote(word))


def _escaped(script: str) -> str:
    return _PLAIN.sub(lambda found: b"\\0%03o" % found[0][0], os.fsencode(script)).decode("ascii")


def output(stdout: bytes, mark: str) -> bytes | None:
    """Return what the command itself wrote; None where it has not been started."""
    _, found, own = stdout.partition(b"\x1e%s\x1e" % mark.encode())
    return own if found else None


# Reads a raw deflate stream: `MODE SIZE LENGTH\n`, a name of LENGTH bytes and SIZE bytes of content for each file, then
# `end`. Nothing is renamed to its place before the end was read, so that a lost connection leaves nothing behind. It
# imports only what Python has loaded anyway, and zlib: this runs once on every node of a launch.
UNPACK = """
import os, sys, zlib
target, packed, ready = sys.argv[1], zlib.decompressobj(-15), b""
os.umask(0o077)
made, staging = [], "%s/.put.%d" % (target, os.getpid())
def more():
    part = b""
    while not part:
        data = os.read(0, 65536)
        if not data:
            raise EOFError("the stream ended half-way")
        part = packed.decompress(data)
    return part
def line():
    global ready
    while b"\\n" not in ready:
        ready += more()
    found, _, ready = ready.partition(b"\\n")
    return found
def take(size):
    global ready
    ready = ready or more()
    part, ready = ready[:size], ready[size:]
    return part
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
    while (head := line()) != b"end":
        mode, size, length = map(int, head.split())
        raw = b""
        while len(raw) < length:
            raw += take(length - len(raw))
        name, own = os.fsdecode(raw), "%s/%d" % (staging, len(made))
        with open(own, "wb", buffering=0) as file:
            os.fchmod(file.fileno(), mode)
            while size:
                part = take(size)
                size -= len(part)
                while part:
                    part = part[file.write(part):]
        made.append((own, os.path.join(target, name)))
    for own, final in made:
        need(os.path.dirname(final))
        os.replace(own, final)
    made.clear()
except (OSError, EOFError, zlib.error) as error:
    sys.exit("%s" % (getattr(error, "strerror", None) or error))
finally:
    if os.path.isdir(staging):
        for name in os.listdir(staging):
            os.unlink(os.path.join(staging, name))
        os.rmdir(staging)
"""


def packed(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    """Return the stdin of `UNPACK`: content and mode of files by relative path.

    Programs, which are the same on all machines, are packed once: a flushed deflate stream goes on with any other.
    """
    parts = [
        _packed_once(name, content, mode) if len(content) >= LONG else _record(name, content, mode)
        for name, (content, mode) in files.items()
    ]
    last = zlib.compressobj(_LEVEL, wbits=-15)
    return b"".join(parts) + last.compress(b"end\n") + last.flush()


@lru_cache(maxsize=512)
def _packed_once(name: str, content: bytes, mode: int) -> bytes:
    return _record(name, content, mode)


def _record(name: str, content: bytes, mode: int) -> bytes:
    packer, raw = zlib.compressobj(_LEVEL, wbits=-15), os.fsencode(name)
    return b"".join(
        (
            packer.compress(b"%d %d %d\n" % (mode, len(content), len(raw)) + raw),
            packer.compress(content),
            packer.flush(zlib.Z_FULL_FLUSH),
        )
    )
