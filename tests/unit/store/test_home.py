"""Who else can change what is stored."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.errors import SpecError
from launcher.store import home
from launcher.store.store import Store
from launcher.transport.local import LocalShell
from tests.real.local import inventory

NOBODY = 54321
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def refusal(at: Path) -> str:
    """Return the message and the hint with which a store is refused."""
    with pytest.raises(SpecError) as refused:
        Store(at)
    (mistake,) = refused.value.mistakes
    return f"{mistake.what}\n{mistake.hint}"


def test_nothing_that_is_made_can_be_written_by_others(tmp_path: Path, open_umask: None) -> None:
    at = tmp_path / "deep" / "below" / "home"
    store = Store(at)
    store.close()
    access = inventory(at, racks=1, nodes=1).nodes[0].access
    LocalShell().put(access, str(at / "nodes" / "n1" / "one"), {"a/b/c": (b"x", 0o600)}, timeout=1)
    made = [tmp_path / "deep", *(tmp_path / "deep").rglob("*")]
    assert len(made) > 8
    assert [path for path in made if stat.S_IMODE(path.lstat().st_mode) & 0o077] == []


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775, 0o702])
def test_a_home_that_others_can_write_to_is_refused_with_the_command_that_mends_it(tmp_path: Path, mode: int) -> None:
    at = tmp_path / "my home"
    at.mkdir()
    os.chown(at, -1, NOBODY if os.getuid() == 0 else -1)
    at.chmod(mode)
    said = refusal(at)
    assert f"`{at}` can be changed by" in said
    assert f"mode {mode:04o}" in said
    assert f"`chmod go-w '{at}'`" in said
    at.chmod(mode & ~0o022)
    Store(at).close()


@pytest.mark.parametrize("name", ["state.db", "state.db-wal", "state.db-shm", "state.lock"])
@pytest.mark.parametrize("kind", ["writable", "link", "owned"])
def test_a_file_of_the_store_that_others_can_change_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    at, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    at.mkdir()
    elsewhere.touch()
    path = at / name
    if kind == "link":
        path.symlink_to(elsewhere)
    elif kind == "writable":
        path.touch()
        path.chmod(0o666)
    elif os.getuid() == 0:
        path.touch(0o600)
        os.chown(path, NOBODY, NOBODY)
    else:
        pytest.skip("only root can give files away")
    assert str(path) in refusal(at)
    assert elsewhere.read_bytes() == b""


def test_a_folder_above_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    above = tmp_path / "team"
    (above / "mine" / "home").mkdir(parents=True)
    above.chmod(0o777)
    assert f"`{above}` can be changed by everybody" in refusal(above / "mine" / "home")
    assert f"`{above}`" in refusal(above / "not" / "there")
    assert not (above / "not").exists()
    above.chmod(0o1777)  # as /tmp: others cannot rename what is mine
    Store(above / "mine" / "home").close()


@AS_ROOT
def test_a_home_of_another_user_is_refused(tmp_path: Path) -> None:
    at = tmp_path / "theirs"
    at.mkdir(0o755)
    os.chown(at, NOBODY, NOBODY)
    assert f"`{at}` belongs to uid {NOBODY} (owner uid {NOBODY}, mode 0755)" in refusal(at)
    assert f"`{at}` belongs to" in refusal(at / "below")


@AS_ROOT
def test_a_link_of_another_user_on_the_way_is_refused(tmp_path: Path) -> None:
    shared, mine = tmp_path / "shared", tmp_path / "mine"
    shared.mkdir()
    shared.chmod(0o1777)
    mine.mkdir(0o700)
    (shared / "link").symlink_to(mine)
    Store(shared / "link" / "home").close()
    os.lchown(shared / "link", NOBODY, NOBODY)
    assert f"`{shared / 'link'}` belongs to uid {NOBODY}" in refusal(shared / "link" / "home")


def test_links_are_followed_to_the_folders_behind_them(tmp_path: Path) -> None:
    behind = tmp_path / "behind" / "disk"
    behind.mkdir(parents=True)
    (tmp_path / "behind").chmod(0o777)
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("./behind/../behind/disk")
    assert f"`{tmp_path / 'behind'}` can be changed by everybody" in refusal(tmp_path / "one" / "home")
    (tmp_path / "round").symlink_to("round")
    assert "too many links" in refusal(tmp_path / "round" / "home")


def test_the_command_line_checks_before_it_reads_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setenv("NVLAUNCH_HOME", str(tmp_path))
    with pytest.raises(SpecError):
        home.home()


@AS_ROOT
def test_a_group_that_is_the_users_own_may_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    os.chown(tmp_path, 0, 0)  # root's own group
    home.check_private(tmp_path)
    os.chown(tmp_path, 0, NOBODY)
    with pytest.raises(SpecError, match=f"group gid {NOBODY}"):
        home.check_private(tmp_path)


def test_a_second_store_of_a_process_leaves_the_locks_of_the_first(tmp_path: Path) -> None:
    first = Store(tmp_path / "home")
    taken = (
        "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute('BEGIN IMMEDIATE')"
    )
    with first._db.write():
        Store(tmp_path / "home").close()
        other = subprocess.run([sys.executable, "-c", taken, first.home / home.FILE], capture_output=True, text=True)
    assert "database is locked" in other.stderr
