"""The two streams: data goes to stdout, all that is said to people goes to stderr. Colour only on a terminal."""

import os
import re
import sys
import threading
from enum import Enum
from typing import NoReturn, TextIO

import typer

from launcher.errors import ExitCode, LaunchError, Mistake, SpecError

# C0 and C1 controls but newline and tab, DEL, and what turns the direction of text (Unicode TR 36).
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class Colour(Enum):
    """What a colour means; nothing is said by colour alone."""

    GOOD = "green"
    BAD = "red"
    DOUBT = "yellow"
    POINTER = "cyan"


def clean(text: str) -> str:
    r"""Return a text of unknown origin without control characters: a terminal would obey them. ESC reads `\x1b`."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def coloured(stream: TextIO) -> bool:
    """Whether colour may be used (no-color.org, and terminals that have none)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: Colour, stream: TextIO) -> str:
    """Return a text in a colour, or as it is where the stream has none."""
    return typer.style(text, fg=colour.value) if coloured(stream) else text


def open_closed_streams() -> None:
    """Open on nothing what is closed of stdin, stdout and stderr, as a caller may leave them (`>&-`).

    Python has no stream for these; and a file opened later would get such a number, and what is said with it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, number)
            if nothing != number:
                os.close(nothing)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def say(text: str = "") -> None:
    """Tell people; a reader that went away, or a full disk under a log, is no reason to stop."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _silence(sys.stderr)


def warn(text: str) -> None:
    """Tell people of something doubtful."""
    say(f"{paint('warning', Colour.DOUBT, sys.stderr)}: {text}")


def show(text: str) -> None:
    """Give data; ends the command quietly where the reader has had enough."""
    show_bytes(f"{text}\n".encode(sys.stdout.encoding or "utf-8", "replace"))


def show_bytes(data: bytes) -> None:
    """Give data byte for byte; ends the command quietly where the reader has had enough."""
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
    """Return where the user agrees or said `--yes`; exit 2 without a terminal to ask on, 130 where they do not."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        refuse("there is no terminal to ask on, and nothing was changed", hint="add `--yes` to go on without asking")
    if not typer.confirm(question, default=True, err=True):
        say("nothing was changed")
        raise typer.Exit(ExitCode.INTERRUPTED)


def refuse(what: str, *, hint: str | None = None, where: str = "") -> NoReturn:
    """Raise SpecError for one mistake on the command line."""
    raise SpecError((Mistake(what=what, hint=hint, where=where),))


def pause(seconds: float) -> None:
    """Wait before the store is read again: the one wait of the command line. Its loops follow, and drive nothing."""
    threading.Event().wait(seconds)


def _silence(stream: TextIO) -> None:
    """Point a broken stream at nothing, so that Python's own flush at exit does not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
