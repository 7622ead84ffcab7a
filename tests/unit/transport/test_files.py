"""What of a folder goes to nodes."""

import json
import zlib
from pathlib import Path

from launcher.core.model.inventory import Access
from launcher.core.model.run import RunId
from launcher.core.model.task import Task
from launcher.transport.agent import interpreter
from launcher.transport.upload import files


def a_folder(at: Path) -> Path:
    """Return a folder of wheels in which other files lie too."""
    (at / "deep").mkdir(parents=True)
    for name in ("ray-2.60.0.whl", "six-1.0.whl"):
        (at / name).write_bytes(b"w" * 1000)
    for name in ("id_ed25519", "notes.whl.txt", "deep/other.whl"):
        (at / name).write_bytes(b"private")
    (at / "link.whl").symlink_to(at / "id_ed25519")
    (at / "folder.whl").mkdir()
    return at


def test_only_wheels_of_a_folder_of_wheels_are_sent(tmp_path: Path) -> None:
    kept = files.keep_wheels(tmp_path / "home", RunId("one-abcdef"), str(a_folder(tmp_path / "wheels")))
    (tree,) = json.loads(zlib.decompress(kept.manifest))["trees"]
    assert [entry[:2] for entry in tree["entries"]] == [["f", "ray-2.60.0.whl"], ["f", "six-1.0.whl"]]
    assert b"private" not in bytes(kept.contents(range(len(json.loads(zlib.decompress(kept.manifest))["hashes"]))))


def test_a_node_is_told_of_the_wheels_that_are_sent(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "wheels")
    wanted = interpreter.wanted(Access(address="n1", wheels=str(folder)), {})
    assert wanted
    assert wanted["wheels"]
    assert wanted["wheels"]["at"] == str(folder)
    assert [name for name, _ in wanted["wheels"]["sent"] or ()] == ["ray-2.60.0.whl", "six-1.0.whl"]


def test_wheels_and_each_source_are_counted(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_bytes(b"12345")
    (tmp_path / "data.bin").write_bytes(b"1234567")
    mounts = {"~/data/": str(tmp_path / "data.bin")}
    task = Task(name="job", groups=(), workdir=str(tmp_path / "code"), file_mounts=mounts)
    found = files.weigh(task, [str(a_folder(tmp_path / "wheels")), "/on/the/nodes"])
    assert [(one.to, one.files, one.size) for one in found.sources] == [("", 1, 5), ("~/data/data.bin", 1, 7)]
    assert (found.files, found.size) == (2, 12)
    assert [(one.path, one.files, one.size) for one in found.wheels] == [(str(tmp_path / "wheels"), 2, 2000)]
