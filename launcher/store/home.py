"""Where runs are stored: `$NVLAUNCH_HOME`, else `~/.nvlaunch`. Nobody else may be able to change anything there.

What is stored holds commands that run as this user, on this machine and on nodes.
"""

import contextlib
import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from launcher.errors import refuse

FILE = "state.db"
_FILES = (FILE, f"{FILE}-wal", f"{FILE}-shm", "state.lock")
_MAX_LINKS = 40
_ROOT_ALONE = "0 0 4294967295"
"""The map of user ids outside of user namespaces (user_namespaces(7))."""


def home() -> Path:
    """Return the folder that runs are stored in.

    SpecError where it belongs to an unknown user, or others can change it.
    """
    given = os.environ.get("NVLAUNCH_HOME")
    try:
        found = Path(given).expanduser().absolute() if given else Path.home().absolute() / ".nvlaunch"
    except RuntimeError:  # `~name` without such a user, or no `$HOME` and no line in passwd(5)
        what = f"cannot resolve `{given}`" if given else "this user has no home folder"
        refuse(what, hint="set `NVLAUNCH_HOME` to a folder that you can write to")
    check_private(found)
    return found


def make_private(home: Path) -> None:
    """Create the folder, those above it that are missing, and that for runs, for this user alone.

    Whatever the umask is. SpecError where others can change what is there already, OSError where it cannot be created.
    """
    check_private(home)
    for folder in (*reversed(home.parents), home, home / "runs"):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        # Never opened where it exists: to close it would drop the locks that SQLite holds in this process (fcntl(2)).
        os.close(os.open(home / FILE, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    check_private(home)  # others may have been faster


def check_private(home: Path) -> None:
    """Raise SpecError where others can change what is stored, or what leads there.

    From the root down: what has been checked cannot be exchanged meanwhile.
    """
    for path, found in _steps(home):
        _check_owner(path, found)
        if stat.S_ISDIR(found.st_mode) and not found.st_mode & stat.S_ISVTX:
            _check_mode(path, found)
    if not home.is_dir():
        return
    _check_mode(home, home.stat())  # a sticky bit does not keep others from adding files
    for path in (home / name for name in _FILES):
        if os.path.lexists(path):
            _check_file(path, path.lstat())


def _steps(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Return every folder and link on the way to a path, as far as they exist."""
    left, at, links = list(path.parts), Path("/"), 0
    while left:
        step = at / left.pop(0)
        try:
            found = step.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return
        yield step, found
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > _MAX_LINKS:
                refuse(f"`{path}` has too many links", hint="set `NVLAUNCH_HOME` to a folder that you can write to")
            left = [*step.readlink().parts, *left]
        else:
            at = at.parent if step.name == ".." else step


def _check_file(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        refuse(f"`{path}` is not a plain file", hint="move it away, or set `NVLAUNCH_HOME` to another folder")
    _check_owner(path, found)
    _check_mode(path, found)


def _check_owner(path: Path, found: os.stat_result) -> None:
    if found.st_uid not in _trusted():
        _refuse(path, found, f"belongs to {_name(found.st_uid)}", f"chown {_name(os.getuid())}")


def _check_mode(path: Path, found: os.stat_result) -> None:
    others, group = found.st_mode & stat.S_IWOTH, found.st_mode & stat.S_IWGRP
    if others or (group and not _is_alone_in(found.st_gid)):
        who = "everybody" if others else f"group {_group(found.st_gid)}"
        _refuse(path, found, f"can be changed by {who}", "chmod go-w")


def _refuse(path: Path, found: os.stat_result, why: str, command: str) -> None:
    shown = f"owner {_name(found.st_uid)}, mode {stat.S_IMODE(found.st_mode):04o}"
    what = f"`{path}` {why} ({shown}): what is stored there runs as {_name(os.getuid())}"
    refuse(
        what, hint=f"`{command} {shlex.quote(str(path))}`, or set `NVLAUNCH_HOME` to a folder that only you can change"
    )


def _trusted() -> frozenset[int]:
    """Return this user and root.

    In a user namespace, files of users from outside cannot be changed by those inside.
    """
    trusted = {0, os.getuid()}
    outside = " ".join(Path("/proc/self/uid_map").read_text().split())
    if outside != _ROOT_ALONE:
        trusted.add(int(Path("/proc/sys/kernel/overflowuid").read_text()))
    return frozenset(trusted)


def _is_alone_in(gid: int) -> bool:
    """Whether a group is this user's private one.

    Of the same name, and without others (useradd(8), USERGROUPS_ENAB).
    """
    try:
        me, group = pwd.getpwuid(os.getuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return gid == me.pw_gid and group.gr_name == me.pw_name and set(group.gr_mem) <= {me.pw_name}


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return f"gid {gid}"
