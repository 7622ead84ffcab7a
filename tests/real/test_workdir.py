"""The user's files on their way to a node: what is taken, what is sent, and how it arrives."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import LaunchError
from launcher.transport.upload import bundle, ignore, snapshot
from launcher.transport.upload.snapshot import FileTree, Snapshot


def write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.fsencode(name))


def git(folder: Path, *argv: str) -> str:
    options = ("-c", "user.name=x", "-c", "user.email=x@y", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *options, *argv], cwd=folder, check=True, capture_output=True)
    return os.fsdecode(done.stdout)


def files(folder: Path) -> set[str]:
    return {os.fsdecode(name) for name in ignore.listing(folder).files}


def nested_rules(root: Path) -> None:
    write(root, "a.log", "keep.log", "src/b.log", "src/deep/c.log", "src/deep/c.py", "src/data/x", "data/x")
    (root / ".gitignore").write_text("*.log\n!keep.log\n/data/\n")
    (root / "src" / ".gitignore").write_text("!b.log\n")


def star_with_exceptions(root: Path) -> None:
    write(root, "dataset/a", "dataset/keep.py", "dataset/sub/b", "other")
    (root / ".gitignore").write_text("dataset/*\n!dataset/keep.py\n")


def info_exclude(root: Path) -> None:
    write(root, "mine.txt", "yours.txt")
    (root / ".git" / "info").mkdir(exist_ok=True)
    (root / ".git" / "info" / "exclude").write_text("mine.txt\n")


def odd_names(root: Path) -> None:
    write(root, "with space", "new\nline", "ümläut", "-dash", "#hash", "!bang", 'quo"te', "trailing ", "dir x/a b")
    write(root, os.fsdecode(b"latin-\xe4"))
    (root / ".gitignore").write_text("\\#nothing\n")


def links(root: Path) -> None:
    write(root, "folder/inner")
    (root / "to-file").symlink_to("folder/inner")
    (root / "to-folder").symlink_to("folder")
    (root / "dangling").symlink_to("/nowhere")
    (root / "loop").symlink_to("loop")


def ignored_folder_holds_what_looks_kept(root: Path) -> None:
    write(root, "build/keep", "build/drop", "out/keep", "out/drop")
    (root / ".gitignore").write_text("/build/*\n!/build/keep\n/out/\n!/out/keep\n")


CASES = (nested_rules, star_with_exceptions, info_exclude, odd_names, links, ignored_folder_holds_what_looks_kept)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_what_is_taken_is_what_git_would_add(tmp_path: Path, case: Callable[[Path], None]) -> None:
    git(tmp_path, "init", "-q")
    case(tmp_path)
    taken = files(tmp_path)
    git(tmp_path, "add", "-A")
    assert taken == set(filter(None, git(tmp_path, "ls-files", "-z").split("\0")))
    assert taken


def test_tracked_files_go_though_ignored_and_deleted_ones_do_not(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, "model.bin", "gone", "was/folder", "real/x")
    git(tmp_path, "add", "-A")
    (tmp_path / ".gitignore").write_text("*.bin\n")
    (tmp_path / "gone").unlink()
    shutil.rmtree(tmp_path / "was")
    (tmp_path / "was").symlink_to("real")
    (tmp_path / "real" / "folder").touch()
    assert files(tmp_path) == {".gitignore", "model.bin", "was", "real/x", "real/folder"}


def test_a_subfolder_of_a_repository_goes_alone_under_the_rules_above_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, "part/a.py", "part/a.log", "other/b.py")
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert files(tmp_path / "part") == {"a.py"}


def test_a_folder_that_the_repository_around_it_ignores_as_a_whole_is_no_part_of_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, "scratch/a.py", "scratch/b.log")
    (tmp_path / ".gitignore").write_text("scratch/\n")
    assert files(tmp_path / "scratch") == {"a.py", "b.log"}


def test_submodules_and_repositories_inside_go_with_their_own_rules(tmp_path: Path) -> None:
    library, root = tmp_path / "library", tmp_path / "root"
    for folder in (library, root, root / "clone"):
        folder.mkdir()
        git(folder, "init", "-q")
    write(library, "lib.py")
    git(library, "add", "-A")
    git(library, "commit", "-qm", "x")
    git(root, "submodule", "--quiet", "add", str(library), "sub/lib")
    write(root, "top.py", "sub/lib/new.py", "sub/lib/x.tmp", "clone/c.py", "clone/c.tmp")
    (root / "sub" / "lib" / ".gitignore").write_text("*.tmp\n")
    own = {"sub/lib/lib.py", "sub/lib/new.py", "sub/lib/.gitignore"}
    assert files(root) == {".gitmodules", "top.py", "clone/c.py", "clone/c.tmp"} | own


def test_outside_of_git_all_goes_but_git_s_own_folders(tmp_path: Path) -> None:
    write(tmp_path, "a", "data/b", ".gitignore", "clone/.git/config", "clone/c")
    (tmp_path / ".gitignore").write_text("data/\n")
    assert files(tmp_path) == {"a", "data/b", ".gitignore", "clone/c"}


@pytest.mark.parametrize("in_git", [False, True], ids=["plain", "git"])
def test_skyignore_takes_the_place_of_git_s_rules(tmp_path: Path, in_git: bool) -> None:
    if in_git:
        git(tmp_path, "init", "-q")
    write(tmp_path, "a.py", "b.log", "logs/c", "src/logs/d", "src/e.log", "src/top.txt", "top.txt", "x/y/z", "u/x/y/z")
    (tmp_path / ".gitignore").write_text("a.py\n")
    (tmp_path / ".skyignore").write_text("# comment\n*.log\nlogs\n/top.txt\nx/y\n")
    assert files(tmp_path) == {".gitignore", ".skyignore", "a.py", "src/top.txt"}


def test_empty_folders_go_unless_ignored_and_special_files_are_named(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, "src/a")
    for name in ("src/empty", "new/deep/empty", "ignored/empty", "build/e"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ".gitignore").write_text("ignored/\n/build/*\n")
    os.mkfifo(tmp_path / "src" / "pipe")
    with socket.socket(socket.AF_UNIX) as sock:
        os.chdir(tmp_path)
        sock.bind("sock")
    found = ignore.listing(tmp_path)
    assert set(found.empty) == {b"src/empty", b"new/deep/empty"}
    assert found.special == (b"sock", b"src/pipe")
    assert set(found.files) == {b".gitignore", b"src/a"}


def test_what_is_ignored_is_counted_by_file_and_by_whole_folder(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, "a.o", "b.o", "cache/1", "cache/2", "src/only/c.o", "src/x")
    (tmp_path / ".gitignore").write_text("*.o\ncache/\n")
    assert ignore.listing(tmp_path).ignored == 4


def test_rules_that_cannot_be_read_are_an_error_and_never_all_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, "a")
    (tmp_path / ".git" / "config").write_text("[broken\n")
    with pytest.raises(LaunchError, match="git cannot apply the ignore rules"):
        ignore.listing(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match="git is needed"):
        ignore.listing(tmp_path)


def test_another_repository_handed_down_by_a_hook_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    for folder in (mine, other):
        folder.mkdir()
        git(folder, "init", "-q")
    write(mine, "a.py")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    assert files(mine) == {"a.py"}


class Node:
    """A node's folders of runs, and what was sent there."""

    def __init__(self, folder: Path) -> None:
        self.base = folder / "runs"
        self.sent = 0

    def folder(self, run: str) -> Path:
        root = self.base / run
        for name, (content, _) in bundle.programs().items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
        return root

    def program(self, run: str, step: str, *argv: str, stdin: bytes | memoryview) -> dict[str, Any]:
        root = self.folder(run)
        command = [sys.executable, "-EsS", str(root / "nvlaunch_runtime"), "unpack", step, str(root), "workdir", *argv]
        ended = subprocess.run(command, input=stdin, capture_output=True, check=True)
        answer: dict[str, Any] = json.loads(ended.stdout)
        return answer

    def plan(self, run: str, taken: Snapshot) -> dict[str, Any]:
        return self.program(run, "plan", str(self.base), "", stdin=taken.manifest)

    def receive(self, run: str, taken: Snapshot) -> Path:
        """Send a snapshot as the launcher does, and answer where it is."""
        planned = self.plan(run, taken)
        assert planned["ok"], planned
        if "missing" in planned:
            contents = taken.contents(planned["missing"])
            self.sent = len(contents)
            filled = self.program(run, "fill", stdin=contents)
            assert filled == {"ok": True}
        return self.base / run / "workdir"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "node")


def take(folder: Path, to: Path, *mounts: FileTree) -> Snapshot:
    return snapshot.take([FileTree(source=folder, to="", listing=ignore.listing(folder)), *mounts], to)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with what people have in theirs."""
    root = tmp_path / "work dir"
    write(root, "src/train me.py", "run.sh", "ümläut", "new\nline", "data/same-1", "data/same-2", "empty-file")
    (root / "data" / "same-1").write_bytes(b"x" * 200_000)
    (root / "data" / "same-2").write_bytes(b"x" * 200_000)
    (root / "random.bin").write_bytes(os.urandom(150_000))
    (root / "empty-file").write_text("")
    (root / "run.sh").chmod(0o755)
    (root / "secret").touch(0o600)
    (root / "empty").mkdir()
    (root / "link").symlink_to("src/train me.py")
    (root / "dangling").symlink_to("/nowhere")
    (root / "locked").mkdir()
    write(root, "locked/inner")
    (root / "locked").chmod(0o555)
    return root


def test_it_arrives_as_it_was(folder: Path, node: Node, tmp_path: Path) -> None:
    arrived = node.receive("one", take(folder, tmp_path / "kept"))
    assert subprocess.run(["diff", "-r", "--no-dereference", str(folder), str(arrived)]).returncode == 0
    assert (arrived / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (arrived / "secret").stat().st_mode & 0o777 == 0o600
    assert (arrived / "dangling").readlink() == Path("/nowhere")
    assert (arrived / "empty").is_dir()
    assert (arrived / "run.sh").stat().st_mtime_ns == (folder / "run.sh").stat().st_mtime_ns
    (arrived / "result").write_text("mine")
    node.receive("one", take(folder, tmp_path / "kept"))
    assert (arrived / "result").read_text() == "mine", "what ranks wrote is not unpacked over"


def test_a_second_run_is_sent_changes_only_and_trusts_no_file_that_was_changed_there(
    folder: Path, node: Node, tmp_path: Path
) -> None:
    first = node.receive("one", take(folder, tmp_path / "kept-1"))
    assert node.sent > 150_000
    (first / "src" / "train me.py").write_text("changed on the node")
    (folder / "run.sh").write_text("echo changed")
    (folder / "random.bin").rename(folder / "renamed.bin")
    second = node.receive("two", take(folder, tmp_path / "kept-2"))
    assert node.sent < 500
    assert subprocess.run(["diff", "-r", "--no-dereference", str(folder), str(second)]).returncode == 0
    (second / "ümläut").write_text("appended in the second run")
    assert (first / "ümläut").read_text() == "ümläut", "runs share no file"


def test_what_is_sent_is_what_was_there_at_the_start(folder: Path, node: Node, tmp_path: Path) -> None:
    take(folder, tmp_path / "kept")
    (folder / "run.sh").write_text("edited later")
    assert (node.receive("one", Snapshot(tmp_path / "kept")) / "run.sh").read_text() == "run.sh"


def test_a_cut_stream_or_a_broken_content_shows_nothing(folder: Path, node: Node, tmp_path: Path) -> None:
    taken = take(folder, tmp_path / "kept")
    whole = bytes(taken.contents(node.plan("one", taken)["missing"]))
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for broken, words in ((whole[:-100], "ended early"), (bytes(flipped), "")):
        node.plan("one", taken)
        answer = node.program("one", "fill", stdin=broken)
        assert not answer["ok"]
        assert words in answer["message"]
        assert not list((node.base / "one").glob("*workdir*[!k]")), "nothing half is left"
    node.receive("one", taken)


def test_mounts_go_where_they_are_told_by_rename_and_leave_what_is_there(
    folder: Path, node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, mount = tmp_path / "user", tmp_path / "mount"
    monkeypatch.setenv("HOME", str(home))
    write(mount, "a", "deep/b")
    write(home, "data/theirs", "data/a")
    listing = ignore.everything(mount)
    taken = take(
        folder,
        tmp_path / "kept",
        FileTree(source=mount, to="~/data", listing=listing),
        FileTree(source=mount / "a", to=str(tmp_path / "elsewhere" / "config"), listing=None),
        FileTree(source=mount / "a", to="conf/inner", listing=None),
    )
    arrived = node.receive("one", taken)
    assert (home / "data" / "theirs").exists()
    assert (home / "data" / "a").read_text() == "a"
    assert (home / "data" / "deep" / "b").read_text() == "deep/b"
    assert (tmp_path / "elsewhere" / "config").read_text() == "a"
    assert (arrived / "conf" / "inner").read_text() == "a"


def test_a_mount_does_not_go_through_a_link_of_the_workdir(folder: Path, node: Node, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (folder / "out").symlink_to(outside)
    taken = take(folder, tmp_path / "kept", FileTree(source=folder / "run.sh", to="out/x", listing=None))
    missing = node.plan("one", taken)["missing"]
    answer = node.program("one", "fill", stdin=taken.contents(missing))
    assert "`out` is a link" in answer["message"]
    assert not list(outside.iterdir())
