"""An untrusted tar stream: read as tarfile reads it, or refused, in little time and memory."""

import contextlib
import io
import tarfile
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.cli.tar_stream import MAX_EXTENDED, TarStream, TarStreamError
from launcher.cli.untar import Received, Unpacker
from launcher.errors import LaunchError
from tests.effort import drawn

FUZZ = drawn(150)

names = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1, max_size=300)
entries = st.lists(
    st.tuples(names, st.sampled_from([tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE]), st.binary(max_size=1500)),
    max_size=5,
)


def packed(rows: list[tuple[str, bytes, bytes]], mtime: float = 1.5) -> bytes:
    """An archive as nodes write it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for name, kind, content in rows:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mtime, entry.mode = kind, mtime, 0o640
            if kind == tarfile.SYMTYPE:
                entry.linkname = name[::-1]
            entry.size = len(content) if kind == tarfile.REGTYPE else 0
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def read(data: bytes) -> list[tuple[str, bytes, bytes, str, float, int]]:
    """What the stream holds."""
    stream = TarStream(io.BytesIO(data))
    return [
        (entry.name, entry.kind, b"".join(stream.content()), entry.link, entry.mtime, entry.mode) for entry in stream
    ]


@FUZZ
@given(entries, st.floats(-1e6, 1e9))
def test_what_tarfile_writes_is_read_as_it_was(rows: list[tuple[str, bytes, bytes]], mtime: float) -> None:
    found = read(packed(rows, mtime))
    with tarfile.open(fileobj=io.BytesIO(packed(rows, mtime)), mode="r|") as oracle:
        told = [(one.name, one.linkname, one.mtime, one.mode) for one in oracle]
    assert [(name.rstrip("/"), link, at, mode) for name, _, _, link, at, mode in found] == [
        (name, link, pytest.approx(at), mode) for name, link, at, mode in told
    ]
    assert [content for _, _, content, _, _, _ in found] == [
        content if kind == tarfile.REGTYPE else b"" for _, kind, content in rows
    ]


def extended(data: bytes) -> bytes:
    """An extended header, and an entry."""
    header = tarfile.TarInfo("x").tobuf(tarfile.USTAR_FORMAT)
    info = tarfile.TarInfo("long")
    info.type, info.size = tarfile.XHDTYPE, len(data)
    return info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512) + header + bytes(1024)


ODD = {
    "digits": extended(b"1" * (MAX_EXTENDED - 1)),
    "digits in a record": extended(b"60010 path=" + b"1" * 59_998 + b"\n"),
    "a huge number": extended(b"2019 size=" + b"9" * 2008 + b"\n"),
    "not a number": extended(b"13 mtime=nan\n"),
    "a length of 0": extended(b"0 path=a\n"),
    "a length past the end": extended(b"99 path=a\n"),
    "twice extended": extended(b"9 path=a\n")[:1024] + extended(b"9 path=a\n"),
    "a name that is too long": extended(b"5011 path=" + b"n" * 5000 + b"\n"),
    "no end": packed([("a", tarfile.REGTYPE, b"x" * 100)])[:600],
    "noise": bytes(range(256)) * 8,
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_odd_headers_are_refused_at_once(data: bytes) -> None:
    begun = time.monotonic()
    with pytest.raises(TarStreamError):
        read(data)
    assert time.monotonic() - begun < 1.0


def test_an_extended_header_of_200_mib_takes_no_memory() -> None:
    info = tarfile.TarInfo("long")
    info.type, info.size = tarfile.XHDTYPE, 200 << 20

    class Endless(io.RawIOBase):
        """The header, and digits without end."""

        def __init__(self) -> None:
            self.head = io.BytesIO(info.tobuf(tarfile.USTAR_FORMAT))

        def read(self, size: int = -1) -> bytes:
            return self.head.read(size) or b"1" * size

    tracemalloc.start()
    with pytest.raises(TarStreamError, match="more than 64 KiB"):
        list(TarStream(Endless()))  # type: ignore[arg-type]  # it only reads
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_reasons_without_end_are_counted_and_not_kept(tmp_path: Path) -> None:
    received = Received()
    data = packed([("../out", tarfile.REGTYPE, b"")] * 3000)
    Unpacker(tmp_path, received, force=False).unpack(io.BytesIO(data))
    assert (len(received.refused), received.more) == (1000, 2000)


def check(folder: Path, data: bytes) -> None:
    """Unpack, or refuse by LaunchError; nothing comes to be beside the folder."""
    with contextlib.suppress(LaunchError):
        Unpacker(folder / "in", Received(), force=False).unpack(io.BytesIO(data))
    assert [path.name for path in folder.iterdir()] == ["in"]
