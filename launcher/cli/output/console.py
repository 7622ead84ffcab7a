"""The two streams: data to stdout, messages to stderr. Colour only on a terminal."""

import os
import re
import sys
from enum import Enum
from typing import TextIO

import typer

from launcher.errors import ExitCode, LaunchError, refuse

# C0 and C1 controls but newline and tab, DEL, and what turns the direction of text (Unicode TR 36).
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_COLOURS = re.compile("(\x1b\\[(?:0|3[1-6])m)")


class Colour(Enum):
    """The meaning of colours; no message depends on colour alone."""

    GOOD = "green"
    BAD = "red"
    DOUBT = "yellow"
    POINTER = "cyan"


def clean(text: str) -> str:
    r"""Return a text with escaped control characters: ESC becomes `\x1b`."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def coloured(stream: TextIO) -> bool:
    """Whether colour may be used (no-color.org, and terminals that have none)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: Colour, stream: TextIO) -> str:
    """Return a text in a colour; unchanged where the stream has no colours."""
    return typer.style(text, fg=colour.value) if coloured(stream) else text


def open_closed_streams() -> None:
    """Open closed ones of stdin, stdout and stderr on /dev/null.

    A caller may have closed them (`>&-`). Python has no stream then, and a file that is opened later would get the
    number, and the messages.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, number)
            if nothing != number:
                os.close(nothing)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def say(text: str = "") -> None:
    """Write a message to stderr; a closed pipe or a full disk is ignored.

    Words of nodes are in many: what is no colour of ours is escaped here, in all of them.
    """
    try:
        print(
            "".join(part if at % 2 else clean(part) for at, part in enumerate(_COLOURS.split(text))),
            file=sys.stderr,
            flush=True,
        )
    except OSError:
        _silence(sys.stderr)


def warn(text: str) -> None:
    """Write a warning to stderr."""
    say(f"{paint('warning', Colour.DOUBT, sys.stderr)}: {text}")


def show(text: str) -> None:
    """Write text to stdout; ends the command in silence where the reader has gone."""
    show_bytes(f"{text}\n".encode(sys.stdout.encoding or "utf-8", "replace"))


def show_bytes(data: bytes) -> None:
    """Write bytes to stdout; ends the command in silence where the reader has gone."""
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence(sys.stdout)
        raise typer.Exit from None
    except OSError as error:
        _silence(sys.stdout)
        raise LaunchError(f"cannot write to stdout: {(error.strerror or str(error)).lower()}") from error


def agree(question: str, *, yes: bool) -> None:
    """Return where the user agrees, or used `--yes`.

    Exit 2 without a terminal to ask on, 130 where they disagree.
    """
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        refuse("cannot ask for confirmation without a terminal; nothing was changed", hint="add `--yes` to confirm")
    if not typer.confirm(question, default=True, err=True):
        say("nothing was changed")
        raise typer.Exit(ExitCode.INTERRUPTED)


def _silence(stream: TextIO) -> None:
    """Redirect a broken stream to /dev/null.

    Python would complain when it flushes the stream at exit.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
