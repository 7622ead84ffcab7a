"""Read a file as text.

It must be UTF-8, bounded in size, and without characters that YAML does not allow.
"""

import difflib
import os
from pathlib import Path

import yaml

from launcher.config.yaml.nodes import Mark
from launcher.core.model.text import data_size
from launcher.errors import Mistake, SpecError

# An inventory of 10,000 nodes, one a line, has about 1 MB.
MAX_BYTES = 5_000_000

STDIN, STDIN_NAME = Path("-"), Path("<stdin>")
"""The path that stands for standard input, and what messages call it."""


def refuse(where: str, what: str, *, mark: Mark | None = None, hint: str | None = None) -> SpecError:
    """Return the error for a file that cannot be read any further."""
    mark = mark or Mark()
    return SpecError((Mistake(what=what, where=where, line=mark.line, column=mark.column, hint=hint),))


def read_text(path: Path, *, what: str = "file", limit: int = MAX_BYTES) -> str:
    """Return the text of a file without its byte order mark.

    SpecError if it is not plain UTF-8 text. `what` is the kind of file in messages, `limit` the largest size in bytes.
    """
    where = _name(path)
    data = read_bytes(path, what=what, limit=limit)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refuse(where, *_undecodable(data, error.start)) from error
    stray = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if stray is None:
        return text
    if "\0" in text:
        raise refuse(where, f"this is a binary file, not a {what}")
    mark = mark_at(text, stray.start())
    code = f"U+{ord(stray.group()):04X}"
    raise refuse(where, f"control character {code} is not allowed", mark=mark, hint="remove the character")


def mark_at(text: str, index: int) -> Mark:
    """Return the line and column of a character, both counted from 1."""
    line_start = text.rfind("\n", 0, index) + 1
    return Mark(text.count("\n", 0, index) + 1, index - line_start + 1)


def read_bytes(path: Path, *, what: str, limit: int = MAX_BYTES) -> bytes:
    """Return the content of a file, or of standard input.

    SpecError if it cannot be read, or has more than `limit` bytes.
    """
    where = _name(path)
    try:
        with os.fdopen(0, "rb", closefd=False) if path == STDIN else path.open("rb") as file:
            data = file.read(limit + 1)
    except FileNotFoundError as error:
        raise refuse(where, "no such file", hint=_near(path)) from error
    except IsADirectoryError as error:
        raise refuse(where, "this is a directory, not a file") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "the name contains a NUL"
        raise refuse(where, f"cannot be read: {reason.lower()}") from error
    if len(data) > limit:
        raise refuse(where, f"the file is larger than {data_size(limit).replace('.0 ', ' ')}: this is not a {what}")
    return data


def _name(path: Path) -> str:
    return str(STDIN_NAME if path == STDIN else path)


def _near(path: Path) -> str | None:
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.suffix in {".yaml", ".yml", ".env"}]
    except OSError:
        return None
    match = difflib.get_close_matches(path.name, names, n=1)
    return f"did you mean `{path.parent / match[0]}`?" if match else None


def _undecodable(data: bytes, at: int) -> tuple[str]:
    if b"\0" in data:
        return ("this is a binary file, or its encoding is not UTF-8",)
    return (f"byte 0x{data[at]:02x} on line {data.count(10, 0, at) + 1} is not UTF-8 text",)
