"""Reads an untrusted tar stream in linear time and little memory.

`runtime/archive.py` writes POSIX archives: headers of 512 bytes, and before some an extended one with longer names and
exact times. Nothing else is read: no GNU extensions, no sparse files, no numbers in base 256. Each header has a limit,
so has each name; a wrong checksum ends it. `TarStreamError` is the only error of the content.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

BLOCK = 512
PART = 1 << 20
MAX_EXTENDED = 64 << 10
"""Bytes of an extended header: a path and a link target have 4096 each (PATH_MAX)."""
MAX_NAME = 4096
MAX_SIZE = 1 << 50
MAX_TIME = 1 << 34
FILE, LINK, FOLDER, EXTENDED = b"0", b"2", b"5", b"x"

_OCTAL = re.compile(rb" *([0-7]{0,12})[ \0]*")
_RECORD = re.compile(rb"([0-9]{1,5}) ([^=\n]{1,100})=")
_NUMBER = re.compile(rb"-?[0-9]{1,18}(\.[0-9]{1,30})?(e[-+]?[0-9]{1,3})?")


class TarStreamError(ValueError):
    """The stream is no archive that is read here; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TarEntry:
    """An entry of an archive: its kind as the letter of its header, and what it links to."""

    name: str
    kind: bytes
    size: int
    mode: int
    mtime: float
    link: str


class TarStream:
    """The entries of a stream, one after the other."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._left = 0
        self._padding = 0

    def __iter__(self) -> Iterator[TarEntry]:
        """Yield each entry; what was not read of its content is passed over."""
        while (header := self._header()) is not None:
            extended: Mapping[bytes, bytes] = {}
            if header[156:157] == EXTENDED:
                extended = _records(self._extended(header))
                header = self._header()
                if header is None or header[156:157] == EXTENDED:
                    raise TarStreamError("an extended header without an entry")
            entry = _entry(header, extended)
            self._expect(entry.size)
            yield entry
            for _ in self.content():
                pass
            self._exactly(self._padding)

    def content(self) -> Iterator[bytes]:
        """Yield the parts of the content of the entry that came last."""
        while self._left:
            part = self._exactly(min(self._left, PART))
            self._left -= len(part)
            yield part

    def _expect(self, size: int) -> None:
        self._left, self._padding = size, -size % BLOCK

    def _header(self) -> bytes | None:
        """Return the next header; None at the end of the archive."""
        block = self._exactly(BLOCK)
        if not any(block):
            return None
        told = sum(block[:148]) + 8 * 0x20 + sum(block[156:])
        if _octal(block[148:156]) != told:
            raise TarStreamError("a header whose checksum is wrong")
        return block

    def _extended(self, header: bytes) -> bytes:
        size = _octal(header[124:136])
        if size > MAX_EXTENDED:
            raise TarStreamError(f"an extended header of more than {MAX_EXTENDED >> 10} KiB")
        data = self._exactly(size)
        self._exactly(-size % BLOCK)
        return data

    def _exactly(self, count: int) -> bytes:
        data = self._stream.read(count)
        if len(data) < count:
            raise TarStreamError("it ends early")
        return data


def _entry(header: bytes, extended: Mapping[bytes, bytes]) -> TarEntry:
    kind = header[156:157].replace(b"\0", FILE)
    prefix = _text(header[345:500]) if header[257:263] == b"ustar\0" else b""
    name = extended.get(b"path", prefix + b"/" * bool(prefix) + _text(header[:100]))
    link = extended.get(b"linkpath", _text(header[157:257]))
    size = int(extended[b"size"]) if b"size" in extended else _octal(header[124:136])
    mtime = float(extended[b"mtime"]) if b"mtime" in extended else float(_octal(header[136:148]))
    if max(len(name), len(link)) > MAX_NAME:
        raise TarStreamError("a name that is too long")
    if not 0 <= size <= MAX_SIZE:
        raise TarStreamError("a file that is too large")
    return TarEntry(
        name=name.decode("utf-8", "surrogateescape"),
        kind=kind,
        size=size if kind not in (LINK, FOLDER) else 0,
        mode=_octal(header[100:108]) & 0o777,
        mtime=mtime if abs(mtime) < MAX_TIME else 0.0,
        link=link.decode("utf-8", "surrogateescape"),
    )


def _records(data: bytes) -> dict[bytes, bytes]:
    """Return what an extended header says: `LENGTH NAME=VALUE` and a line end, again and again."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        head = _RECORD.match(data, at, at + 107)
        end = at + int(head[1]) if head else 0
        if head is None or not head.end() < end <= len(data) or data[end - 1 : end] != b"\n":
            raise TarStreamError("an extended header that cannot be read")
        name, value = head[2], data[head.end() : end - 1]
        if name in (b"size", b"mtime") and not _NUMBER.fullmatch(value):
            raise TarStreamError("an extended header with an odd number")
        if name == b"size" and not value.isdigit():
            raise TarStreamError("an extended header with an odd number")
        found[name] = value
        at = end
    return found


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _octal(field: bytes) -> int:
    found = _OCTAL.fullmatch(field)
    if found is None:
        raise TarStreamError("a header with an odd number")
    return int(found[1] or b"0", 8)
