"""The workdir's way to a node: packed here, unpacked by the node's own program."""

import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from launcher.errors import LaunchError
from launcher.transport import parcel, workdir


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with what people have in theirs."""
    root = tmp_path / "work dir"
    (root / "src").mkdir(parents=True)
    (root / "src" / "train me.py").write_text("print()")
    (root / "run.sh").write_text("true")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("src/train me.py")
    (root / "dangling").symlink_to("/nowhere")
    (root / "ümläut").write_text("x")
    (root / "data").mkdir()
    (root / "data" / "big.bin").write_bytes(b"x" * 1000)
    (root / ".gitignore").write_text("data/\n")
    return root


def names(data: bytes) -> set[str]:
    with tarfile.open(fileobj=BytesIO(data)) as archive:
        return {entry.name for entry in archive if not entry.isdir()}


ALL = {".gitignore", "dangling", "link", "run.sh", "src/train me.py", "ümläut"}


def git(folder: Path, *argv: str) -> None:
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@y", *argv], cwd=folder, check=True)


def test_outside_of_git_all_goes(folder: Path) -> None:
    assert names(workdir.pack(folder)) == ALL | {"data/big.bin"}


def test_in_a_git_tree_what_it_ignores_stays_and_what_is_new_goes(folder: Path) -> None:
    git(folder, "init", "-q")
    git(folder, "add", "run.sh")
    (folder / "gone").write_text("x")
    git(folder, "add", "gone")
    (folder / "gone").unlink()
    assert names(workdir.pack(folder)) == ALL


def test_a_part_of_a_git_tree_goes_alone(folder: Path) -> None:
    git(folder, "init", "-q")
    assert names(workdir.pack(folder / "src")) == {"train me.py"}


def test_a_folder_that_is_gone_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="is gone"):
        workdir.pack(tmp_path / "no")


def test_it_arrives_as_it_was_and_once(folder: Path, tmp_path: Path) -> None:
    node = tmp_path / "node"
    for name, (content, _) in parcel.programs().items():
        (node / name).parent.mkdir(parents=True, exist_ok=True)
        (node / name).write_bytes(content)
    argv = [sys.executable, "-EsS", str(node / "nvlaunch_runtime"), "unpack", str(node)]
    subprocess.run(argv, input=workdir.pack(folder), check=True)
    arrived = node / "workdir"
    assert (arrived / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (arrived / "link").readlink() == Path("src/train me.py")
    assert (arrived / "dangling").readlink() == Path("/nowhere")
    assert (arrived / "src" / "train me.py").read_text() == "print()"
    (arrived / "result").write_text("mine")
    subprocess.run(argv, input=workdir.pack(folder), check=True)
    assert (arrived / "result").read_text() == "mine", "what ranks wrote is not unpacked over"
    cut = tmp_path / "cut"
    cut.mkdir()
    ended = subprocess.run([*argv[:-1], str(cut)], input=workdir.pack(folder)[:2000], stderr=subprocess.DEVNULL)
    assert ended.returncode != 0
    assert not (cut / "workdir").exists()
