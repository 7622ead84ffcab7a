"""A text file written or changed: the difference is shown first, and nothing changes without consent."""

import difflib
import secrets
from pathlib import Path

from launcher.cli.output.console import agree, clean, refuse, say, show_bytes
from launcher.errors import LaunchError


def a_file(out: Path | None) -> Path | None:
    """Return what `-o` names; SpecError for a device, a pipe, a folder, and for `-`, which would be a file's name."""
    if out is None:
        return None
    # /dev/stdout may well be a file, but one that is being written.
    if str(out) == "-" or out.is_relative_to("/dev") or (out.exists() and not out.is_file()):
        refuse(f"`{out}` is no file to write to", hint="name a file, or leave `-o` out")
    return out


def give(text: str, out: Path | None, *, yes: bool) -> None:
    """Write a text to stdout, or to a file, which is changed only with consent."""
    if out is None:
        show_bytes(text.encode("utf-8", "replace"))
        return
    before = standing(out)
    if before is None:
        write(text, out, "", yes=True)
        return
    if before == text:
        say(clean(f"{out}: is so already"))
        return
    show_bytes(difference(before, text, out).encode("utf-8", "replace"))
    write(text, out, f"replace {out}?", yes=yes)


def standing(out: Path) -> str | None:
    """Return what a file holds before it is changed; None where there is none."""
    try:
        return out.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LaunchError(f"cannot read `{out}`: {(error.strerror or str(error)).lower()}") from error


def difference(before: str, after: str, path: Path) -> str:
    """Return what changes between two texts of a file, as `diff -u` shows it."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    lines = difflib.unified_diff(old, new, str(path), str(path))
    return clean("".join(line if line.endswith("\n") else f"{line}\n" for line in lines))


def write(text: str, path: Path, question: str, *, yes: bool) -> None:
    """Write a file in one step, so that a reader finds the old or the new one."""
    agree(question, yes=yes)
    real = path.resolve()
    fresh = real.with_name(f".{real.name}.{secrets.token_hex(4)}")
    try:
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o644
        fresh.touch(mode=0o600)
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(mode)
        fresh.replace(real)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise LaunchError(f"cannot write `{path}`: {(error.strerror or str(error)).lower()}") from error
    say(clean(f"wrote {path}"))
