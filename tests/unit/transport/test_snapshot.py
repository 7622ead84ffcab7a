"""Files that are written while they are copied."""

import os
from pathlib import Path

import pytest

from launcher.transport.upload import ignore, snapshot
from launcher.transport.upload.snapshot import FileTree, Snapshot


def take(folder: Path, to: Path) -> Snapshot:
    return snapshot.take([FileTree(source=folder, to="", listing=ignore.everything(folder))], to)


def writing(monkeypatch: pytest.MonkeyPatch, path: Path, times: int) -> None:
    """The file is written anew each of the first times that its state is asked for after it was read."""
    left, stat = [times], Path.stat

    def changed(self: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if self == path and left[0] > 0:
            left[0] -= 1
            with path.open("ab") as file:
                file.write(b"y" * 200_000)
        return stat(self, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", changed)


@pytest.mark.parametrize(("times", "torn"), [(0, False), (1, False), (2, False), (50, True)])
def test_a_file_is_read_again_until_it_is_whole_and_named_where_it_never_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, torn: bool
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "weights").write_bytes(b"x" * 200_000)
    (folder / "other").write_text("quiet")
    writing(monkeypatch, folder / "weights", times)
    taken = take(folder, tmp_path / "kept")
    assert taken.changed == ((str(folder / "weights"),) if torn else ())
    assert Snapshot(tmp_path / "kept").changed == taken.changed
