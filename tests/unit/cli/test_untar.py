"""Tar streams of nodes that nobody vouches for: what is taken, what is refused, and that nothing lands outside."""

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.cli.untar import Received, Unpacker
from launcher.errors import LaunchError

Add = Callable[[tarfile.TarFile], None]


def file(name: str, content: bytes = b"new", mode: int = 0o640) -> Add:
    def add(archive: tarfile.TarFile) -> None:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode, entry.mtime = len(content), mode, 1_000_000
        archive.addfile(entry, io.BytesIO(content))

    return add


def special(name: str, kind: bytes, target: str = "") -> Add:
    def add(archive: tarfile.TarFile) -> None:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = kind, target
        archive.addfile(entry)

    return add


def packed(*adds: Add) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for add in adds:
            add(archive)
    return made.getvalue()


def unpack(folder: Path, *adds: Add, force: bool = False) -> Received:
    received = Received()
    Unpacker(folder / "into", received, force=force).unpack(io.BytesIO(packed(*adds)))
    return received


def content(folder: Path) -> dict[str, str]:
    """Every file and link below a folder, by its relative name."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    return {
        str(path.relative_to(folder)): f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        for path in found
    }


def test_files_folders_and_inner_links_arrive_as_they_were(tmp_path: Path) -> None:
    received = unpack(
        tmp_path,
        special("ck", tarfile.DIRTYPE),
        file("ck/step-1/a b.pt", b"one", 0o750),
        special("ck/latest", tarfile.SYMTYPE, "step-1"),
        special("ck/step-1/up", tarfile.SYMTYPE, "../step-1/a b.pt"),
    )
    assert content(tmp_path / "into") == {
        "ck/step-1/a b.pt": "one",
        "ck/latest": "-> step-1",
        "ck/step-1/up": "-> ../step-1/a b.pt",
    }
    arrived = (tmp_path / "into/ck/step-1/a b.pt").stat()
    assert (arrived.st_mode & 0o7777, arrived.st_mtime) == (0o750, 1_000_000)
    assert (received.files, received.size, received.refused) == (3, 3, [])


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o755), (0o077, 0o700), (0o000, 0o777)])
def test_modes_of_a_node_are_less_what_the_umask_takes(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        unpack(tmp_path, file("open/to/all", mode=0o4777))
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o7777 for path in (tmp_path / "into").rglob("*")} == {mode}


@pytest.mark.parametrize(
    ("adds", "why"),
    [
        ((file("../out"),), "outside of the target folder"),
        ((file("a/../../out"),), "outside of the target folder"),
        ((file("/tmp/out"),), "outside of the target folder"),
        ((special("a", tarfile.SYMTYPE, ".."),), "a link out of the target folder, to `..`"),
        ((special("a", tarfile.SYMTYPE, "/etc/passwd"),), "a link out of the target folder, to `/etc/passwd`"),
        ((special("d/a", tarfile.SYMTYPE, "../../out"),), "a link out of the target folder, to `../../out`"),
        ((special("d/a", tarfile.SYMTYPE, "b/../../.."),), "a link out of the target folder, to `b/../../..`"),
        ((special("a", tarfile.LNKTYPE, "/etc/passwd"),), "neither a file, a folder nor a symbolic link"),
        ((special("a", tarfile.FIFOTYPE),), "neither a file, a folder nor a symbolic link"),
        ((special("a", tarfile.CHRTYPE),), "neither a file, a folder nor a symbolic link"),
    ],
)
def test_what_would_lie_outside_or_is_no_file_is_refused(tmp_path: Path, adds: tuple[Add, ...], why: str) -> None:
    received = unpack(tmp_path, *adds, file("good"))
    assert content(tmp_path) == {"into/good": "new"}
    assert [words.split(": ", 1)[1] for words in received.refused] == [why]


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "into").mkdir()
    (tmp_path / "into/door").symlink_to(tmp_path / "outside")
    received = unpack(tmp_path, file("door/x"), special("here", tarfile.SYMTYPE, "."), file("here/x"), force=True)
    assert content(tmp_path / "outside") == {}
    assert "x" not in content(tmp_path / "into")
    assert len(received.refused) == 2


def test_what_is_here_is_replaced_only_by_force(tmp_path: Path) -> None:
    (tmp_path / "into").mkdir()
    (tmp_path / "secret").write_text("mine")
    (tmp_path / "into/a").write_text("old")
    (tmp_path / "into/b").symlink_to(tmp_path / "secret")
    received = unpack(tmp_path, file("a"), file("b"))
    assert received.refused == ["`a`: already exists here", "`b`: already exists here"]
    assert (tmp_path / "into/a").read_text() == "old"
    assert unpack(tmp_path, file("a"), file("b"), force=True).refused == []
    assert content(tmp_path / "into") == {"a": "new", "b": "new"}
    assert (tmp_path / "secret").read_text() == "mine"


def test_a_stream_that_is_cut_leaves_no_half_of_a_file(tmp_path: Path) -> None:
    whole = packed(file("first"), file("second", b"x" * 5000))
    with pytest.raises(LaunchError):
        Unpacker(tmp_path / "into", Received(), force=False).unpack(io.BytesIO(whole[:3000]))
    assert content(tmp_path / "into") == {"first": "new"}
    with pytest.raises(LaunchError, match="no tar archive"):
        Unpacker(tmp_path / "into", Received(), force=False).unpack(io.BytesIO(b"Welcome to node 7!\n" * 100))


def test_a_name_that_a_folder_has_stays_a_folder(tmp_path: Path) -> None:
    (tmp_path / "into/a").mkdir(parents=True)
    assert unpack(tmp_path, file("a"), force=True).refused == ["`a`: a folder with this name exists here"]
