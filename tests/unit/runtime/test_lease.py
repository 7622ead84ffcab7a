"""Leases keep honest launchers apart, change nothing that is not theirs, and say whose it is."""

import fcntl
import importlib
import os
import pwd
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import drawn
from tests.unit.runtime.folders import open_to_others

lease = importlib.import_module("launcher.runtime.lease")

RUN = "run `a` (a-1) of x@y"
ME = pwd.getpwuid(os.geteuid()).pw_name
ROOT = os.geteuid() == 0


def test_a_lease_is_held_once_and_says_by_whom(tmp_path: Path) -> None:
    path = str(tmp_path / "lease")
    handles = lease.take([path], f"{RUN} and a longer text")
    with pytest.raises(lease.HeldError, match=r"^run `a` \(a-1\) of x@y and a longer text$"):
        lease.take([path], "run `b` ")
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o666, "every user of the machine must be able to lock it"
    lease.release(handles)
    lease.release(lease.take([path], "run `b` (b-1)"))
    assert Path(path).read_text() == "run `b` (b-1)\n"


def test_the_second_path_is_taken_where_the_folder_of_the_first_is_missing(tmp_path: Path) -> None:
    lease.release(lease.take([str(tmp_path / "no" / "lease"), str(tmp_path / "second")], RUN))
    assert (tmp_path / "second").read_text() == f"{RUN}\n"
    with pytest.raises(FileNotFoundError):
        lease.take([str(tmp_path / "no" / "lease")], RUN)


def test_where_not_everybody_may_make_the_first_both_are_taken(tmp_path: Path) -> None:
    """Who may not make the first has the second alone: without both, two would hold one node."""
    first, second = str(tmp_path / "own" / "lease"), str(tmp_path / "second")
    (tmp_path / "own").mkdir()
    (tmp_path / "own").chmod(0o755)
    held = lease.take([second], RUN)
    with pytest.raises(lease.HeldError):
        lease.take([first, second], "run `b` (b-1)")
    lease.release(held)
    held = lease.take([first, second], "run `b` (b-1)")
    for path in (first, second):
        with pytest.raises(lease.HeldError):
            lease.take([path], RUN)
    lease.release(held)
    (tmp_path / "own").chmod(0o1777)
    lease.release(lease.take([first, second], RUN))
    assert Path(second).read_text() == "run `b` (b-1)\n", "one path is enough where everybody may make it"


@pytest.mark.skipif(not ROOT, reason="only root can be another user")
def test_a_user_who_may_not_make_the_first_and_one_who_may_never_both_hold_it(tmp_path: Path) -> None:
    open_to_others(tmp_path)
    (tmp_path / "own").mkdir(mode=0o755)
    (tmp_path / "all").mkdir()
    (tmp_path / "all").chmod(0o1777)
    paths = [str(tmp_path / "own" / "lease"), str(tmp_path / "all" / "lease")]
    told = r"run `o` \(o-1\) of o@o \(process \d+ of user `nobody` on the node\)"
    with Other(_HOLD, *paths), pytest.raises(lease.HeldError, match=told):
        lease.take(paths, RUN)
    lease.release(lease.take(paths, RUN))


def _link(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def _fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path, _: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


SQUATTED: tuple[tuple[str, Callable[[Path, Path], object], str], ...] = (
    ("link", _link, "is a symbolic link of user"),
    ("dangling link", lambda path, victim: path.symlink_to(victim.with_name("none")), "is a symbolic link of user"),
    ("folder", lambda path, _: path.mkdir(), "is a folder of user"),
    ("second name", lambda path, victim: path.hardlink_to(victim), "is a file with a second name of user"),
    ("pipe", _fifo, "is no plain file of user"),
    ("socket", _socket, "is no plain file of user"),
    ("somebody's file", lambda path, _: path.write_text("127.0.0.1 localhost\n"), "has other content than a lease"),
    ("a large file", lambda path, _: path.write_bytes(b"run `a` " + b"x" * 100_000), "has other content than a lease"),
)


@pytest.mark.parametrize(("make", "what"), [row[1:] for row in SQUATTED], ids=[row[0] for row in SQUATTED])
def test_what_is_no_lease_is_refused_by_its_owners_name_and_left_as_it_is(
    tmp_path: Path, make: Callable[[Path, Path], object], what: str
) -> None:
    victim, path = tmp_path / "victim", tmp_path / "lease"
    victim.write_text("precious")
    make(path, victim)
    before = os.lstat(path)
    with pytest.raises(lease.RefusedLeaseError) as caught:
        lease.take([str(path), str(tmp_path / "second")], RUN)
    assert what in str(caught.value)
    assert f"`{ME}`" in str(caught.value)
    assert str(path) in str(caught.value)
    after = os.lstat(path)
    assert (before.st_ino, before.st_size, before.st_mtime_ns) == (after.st_ino, after.st_size, after.st_mtime_ns)
    assert victim.read_text() == "precious"
    assert not (tmp_path / "second").exists()


def test_a_block_of_ports_steps_over_a_lease_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "ports.40000").mkdir()
    spec = {
        "starts": [40000, 40010],
        "pinned": 1,
        "locks": [str(tmp_path / "ports")],
        "holder": RUN,
        "fixed": False,
    }
    start, handles = lease.take_block(spec, None)
    assert start == 40010
    lease.release(handles)


_HOLD = """
held = lease.take(sys.argv[1:], "run `o` (o-1) of o@o")
"""
_SHARE = """
handle = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(handle, fcntl.LOCK_SH)
"""
_AS_NOBODY = """
import fcntl, importlib, os, sys
lease = importlib.import_module("launcher.runtime.lease")
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
%s
print("held", flush=True)
sys.stdin.read()
"""


class Other:
    """A program of user nobody that holds something while the block runs."""

    def __init__(self, program: str, *paths: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _AS_NOBODY % program, *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
        )

    def __enter__(self) -> None:
        assert self._process.stdout
        if self._process.stdout.readline() != b"held\n":
            raise AssertionError(self._process.communicate()[1].decode())

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


@pytest.mark.skipif(not ROOT, reason="only root can be another user")
def test_a_shared_lock_under_a_forged_name_is_told_with_the_user_who_has_it(tmp_path: Path) -> None:
    open_to_others(tmp_path)
    path = str(tmp_path / "lease")
    lease.release(lease.take([path], "run `innocent` (i-1) of ann@desk"))
    told = r"^run `innocent` .*\(process \d+ of user `nobody` on the node\)$"
    with Other(_SHARE, path), pytest.raises(lease.HeldError, match=told):
        lease.take([path], RUN)


def test_a_look_at_a_lease_delays_nobody_for_long(tmp_path: Path) -> None:
    path = str(tmp_path / "lease")
    lease.release(lease.take([path], RUN))
    handle = os.open(path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_SH)
    with pytest.raises(lease.HeldError):
        lease.take([path], RUN)
    os.close(handle)
    lease.release(lease.take([path], RUN))


@pytest.mark.skipif(not ROOT, reason="only root can be another user")
@pytest.mark.parametrize(("folder", "file", "told"), [(0o700, 0o666, "may not be entered"), (0o755, 0o600, "of user")])
def test_a_lease_that_this_user_may_not_open_is_not_taken_elsewhere(
    tmp_path: Path, folder: int, file: int, told: str
) -> None:
    open_to_others(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "lease").touch()
    (tmp_path / "own" / "lease").chmod(file)
    (tmp_path / "own").chmod(folder)
    (tmp_path / "all").mkdir()
    (tmp_path / "all").chmod(0o1777)
    with (
        pytest.raises(AssertionError, match=told),
        Other(_HOLD, *(str(tmp_path / at / "lease") for at in ("own", "all"))),
    ):
        pass
    assert not (tmp_path / "all" / "lease").exists()


def test_what_others_wrote_into_a_lease_keeps_nobody_from_it(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    lease.release(lease.take([str(path)], RUN))
    path.write_text("no lease at all\n" * 1000)
    lease.release(lease.take([str(path)], RUN))
    assert path.read_text() == f"{RUN}\n"


@drawn(100)
@given(st.one_of(st.binary(max_size=60), st.text(max_size=40).map(lambda text: f"run `{text}` x".encode())))
def test_any_content_is_taken_as_a_lease_or_left_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("lease") / "lease"
    path.write_bytes(content)
    path.chmod(0o644)
    try:
        lease.release(lease.take([str(path)], RUN))
    except lease.RefusedLeaseError:
        assert path.read_bytes() == content
    else:
        assert path.read_text() == f"{RUN}\n"
        assert not content or content.startswith((b"run `", b"ports of run `"))
