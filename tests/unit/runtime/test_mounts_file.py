"""Writes that are in a cache and not in the bucket; mounts in the kernel's table."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

fuse = importlib.import_module("launcher.runtime.fuse")
mounts = importlib.import_module("launcher.runtime.mounts")
mounts_file = importlib.import_module("launcher.runtime.mounts_file")


def test_only_writes_that_are_not_sent_count(tmp_path: Path) -> None:
    meta = tmp_path / "vfsMeta" / "b{1}" / "bucket" / "a"
    meta.mkdir(parents=True)
    (meta / "late").write_text(json.dumps({"Size": 7, "Dirty": True}))
    (meta / "sent").write_text(json.dumps({"Size": 7, "Dirty": False}))
    (meta / "half").write_text('{"Size": 7, "Dir')
    (meta / "odd").write_text("[1]")
    assert mounts_file.unsent(tmp_path) == [("b{1}/bucket/a/late", 7)]
    assert mounts_file.unsent(tmp_path / "none") == []


def _cache(folder: Path, *, dirty: bool) -> Path:
    """A cache of a mount with one file."""
    cache = folder / mounts_file.CACHES / "0"
    for kind, content in (("vfsMeta", json.dumps({"Size": 7, "Dirty": dirty})), ("vfs", "content")):
        path = cache / kind / "b{1}" / "bucket" / "file"
        path.parent.mkdir(parents=True)
        path.write_text(content)
    return cache


def test_writes_that_cannot_be_moved_stay_where_they_are_and_nothing_is_mounted_over_them(tmp_path: Path) -> None:
    spec: Any = {"run": "run-none", "place": "n1"}
    cache = _cache(tmp_path, dirty=True)
    (tmp_path / mounts_file.UNSENT).touch()  # in the way of the folder
    told = mounts.end(tmp_path, spec)
    assert "writes were not sent to the bucket: 1 file, 7 B (bucket/file); they are in `" in told
    buckets = {"buckets": [{"mode": "MOUNT_CACHED"}]}
    with pytest.raises(OSError, match="nothing is mounted again there"):
        mounts.Mounts(None, tmp_path, spec).begin(buckets, {})
    assert (cache / "vfs" / "b{1}" / "bucket" / "file").read_text() == "content"
    (tmp_path / mounts_file.UNSENT).unlink()
    assert "they are in" in mounts.end(tmp_path, spec)
    (kept,) = (tmp_path / mounts_file.UNSENT).glob("*/0/vfs/b{1}/bucket/file")
    assert kept.read_text() == "content"


def test_a_cache_goes_only_if_all_of_it_is_known_to_be_sent(tmp_path: Path) -> None:
    spec: Any = {"run": "run-none", "place": "n1"}
    cache = _cache(tmp_path, dirty=False)
    assert mounts_file.all_sent(tmp_path)
    meta = cache / "vfsMeta" / "b{1}" / "bucket" / "file"
    meta.write_text('{"Size": 7, "Dir')  # cut by a kill
    assert mounts.end(tmp_path, spec).startswith("writes may not be sent to the bucket; they are in `")
    assert mounts.end(tmp_path, spec) == ""
    _cache(tmp_path, dirty=False)
    assert mounts.end(tmp_path, spec) == ""
    assert not (tmp_path / mounts_file.CACHES).exists()


def test_a_large_cache_is_looked_at_rarely(tmp_path: Path) -> None:
    times = iter([0.0, 0.5, 10.0, 11.0, 11.1])  # a look of half a second, one too early, one that is due
    writes = mounts_file.UnsentWrites(tmp_path, lambda: next(times))
    assert writes.now() == []
    meta = tmp_path / "vfsMeta"
    meta.mkdir()
    (meta / "late").write_text(json.dumps({"Size": 7, "Dirty": True}))
    assert writes.now() == []
    assert writes.now() == [("late", 7)]


def test_mounts_of_a_place_are_told_by_their_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "36 35 98:0 / /mnt/a\\040b rw,noatime - fuse.rclone nvlaunch:run-1:n1:0 rw",
        "37 35 98:0 / /mnt/c rw shared:1 - fuse.rclone nvlaunch:run-1:n1:1 rw",
        "38 35 98:0 / /mnt/d rw - fuse.rclone nvlaunch:run-1:n10:0 rw",
        "39 35 98:0 / /mnt/e rw - ext4 /dev/sda1 rw",
    ]
    table = tmp_path / "mountinfo"
    table.write_text("\n".join(lines))
    monkeypatch.setattr(fuse, "MOUNTS", table)
    assert [one.path for one in fuse.of_run("run-1", "n1")] == ["/mnt/c", "/mnt/a b"]
    assert [one.path for one in fuse.below(Path("/mnt"))] == ["/mnt/a b", "/mnt/c", "/mnt/d", "/mnt/e"]
