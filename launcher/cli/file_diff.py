"""Text files that are written.

A changed file is shown as a diff first, and changes only with consent.
"""

import difflib
import secrets
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli.output.console import agree, clean, say, show_bytes
from launcher.errors import LaunchError, refuse


def regular_file(out: Path | None) -> Path | None:
    """Return the value of `-o`.

    SpecError for a device, a pipe, a folder, and for `-`, which would name a file.
    """
    if out is None:
        return None
    # /dev/stdout may be a regular file, but one that is already being written.
    if str(out) == "-" or out.is_relative_to("/dev") or (out.exists() and not out.is_file()):
        refuse(f"`{out}` is not a regular file", hint="name a file, or leave out `-o`")
    return out


OutFile = Annotated[
    Path | None,
    typer.Option("-o", "--out", metavar="FILE", callback=regular_file, help="File to write (default: stdout)."),
]


def write_output(text: str, out: Path | None, *, yes: bool) -> None:
    """Write a text to stdout, or to a file.

    An existing file changes only with consent.
    """
    if out is None:
        show_bytes(text.encode("utf-8", "replace"))
        return
    before = current_text(out)
    if before is None:
        write(text, out, "", yes=True)
        return
    if before == text:
        say(clean(f"{out}: unchanged"))
        return
    show_bytes(difference(before, text, out).encode("utf-8", "replace"))
    write(text, out, f"replace {out}?", yes=yes)


def current_text(out: Path) -> str | None:
    """Return the text of a file; None where it does not exist."""
    try:
        return out.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LaunchError(f"cannot read `{out}`: {(error.strerror or str(error)).lower()}") from error


def difference(before: str, after: str, path: Path) -> str:
    """Return the difference between two texts of a file, in the format of `diff -u`."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    lines = difflib.unified_diff(old, new, str(path), str(path))
    return clean("".join(line if line.endswith("\n") else f"{line}\n" for line in lines))


def write(text: str, path: Path, question: str, *, yes: bool) -> None:
    """Write a file atomically: a reader finds the old text or the new one."""
    agree(question, yes=yes)
    real = path.resolve()
    draft = real.with_name(f".{real.name}.{secrets.token_hex(4)}")
    try:
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o644
        draft.touch(mode=0o600)
        draft.write_text(text, encoding="utf-8")
        draft.chmod(mode)
        draft.replace(real)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise LaunchError(f"cannot write `{path}`: {(error.strerror or str(error)).lower()}") from error
    say(clean(f"wrote {path}"))
