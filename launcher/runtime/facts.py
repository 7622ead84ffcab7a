"""Asks a machine many things at once: `python facts.py < request.json`.

Each runs in a child that can be killed. Requests and answers are typed in `protocol_programs.py`. The answer is one
line of JSON after a mark, whatever a login script has printed before it. Written for the Python that a machine happens
to have, 3.6 or later, and in one file, so that it can be sent and run in the one round trip.
"""

import contextlib
import errno
import fcntl
import grp
import hashlib
import json
import os
import pwd
import re
import resource
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # this file is sent alone
    from .protocol_programs import FactsRequest, ProbeAnswer, ProbeSpec

ANSWER = "nvlaunch-facts "
TIMEOUT = 10.0
LIMIT = 256 * 1024
KILLED_WITHIN = 1.0
NO_PROCESS = 71  # the status of a probe that could not be started: EX_OSERR of sysexits.h
CHUNK = 64 * 1024
MOST_PROCESSES = 200
MOST_LINES = 1024
MOST_LINE = 4096
# As in `lease.py`: with these, the next path of a lease is tried.
NOT_HERE = ("ENOENT", "EACCES", "EPERM", "EROFS")
# Programs of NVIDIA's container toolkit, new and old.
TOOLKIT = (
    "nvidia-container-cli",
    "nvidia-ctk",
    "nvidia-container-runtime",
    "nvidia-container-runtime-hook",
    "nvidia-container-toolkit",
)
TRIAL = b"#!/bin/sh\nexit 0\n" + b"#" * CHUNK  # a program that ends well, and 64 KiB to find room for
# A login over SSH often lacks the folders of the system's own tools.
FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


class Sink:
    """What a stream has printed: its beginning and its end.

    At most `limit` bytes are kept; of lines those with one of the words.
    """

    def __init__(self, limit: int, keep: "list[bytes]") -> None:
        self.limit = limit
        self.keep = keep
        self.head = bytearray()
        self.tail = bytearray()
        self.part = b""
        self.lines = 0
        self.dropped = 0

    def take(self, data: bytes) -> None:
        """Take the next piece of the stream."""
        if not self.keep:
            self._store(data)
            return
        lines = (self.part + data).split(b"\n")
        self.part = lines.pop()[:MOST_LINE]
        for line in lines:
            self._line(line)

    def end(self) -> None:
        """Take what stands after the last line end."""
        if self.part:
            self._line(self.part)
            self.part = b""

    def _line(self, line: bytes) -> None:
        self.lines += 0 if line.startswith(b"-- ") else 1  # remarks of journalctl are not lines of the log
        if any(word in line for word in self.keep):
            self._store(line[:MOST_LINE] + b"\n")

    def _store(self, data: bytes) -> None:
        room = self.limit // 2 - len(self.head)
        self.head += data[: max(0, room)]
        self.tail += data[max(0, room) :]
        excess = len(self.tail) - self.limit // 2
        if excess > 0:
            self.dropped += excess
            del self.tail[:excess]

    def text(self) -> str:
        """Return what was kept."""
        return bytes(self.head + self.tail).decode("utf-8", "replace")


class Probe:
    """One question in a child and a session of its own.

    All that it starts can be killed with it.
    """

    def __init__(self, name: str, spec: "ProbeSpec") -> None:
        limit = LIMIT
        keep: list[bytes] = []
        if "argv" in spec:
            limit, keep = spec.get("limit", LIMIT), [word.encode() for word in spec.get("keep", [])]
        self.name = name
        self.sinks = {"out": Sink(limit, keep), "err": Sink(limit // 8, [])}
        self.began = time.monotonic()
        self.deadline = self.began + spec.get("timeout", TIMEOUT)
        self.ended = 0.0
        self.status: int | None = None
        self.timed_out = False
        self.pipes: dict[int, str] = {}
        self.pid = self._spawn(spec)

    def _spawn(self, spec: "ProbeSpec") -> int:
        """Return the child; 0 where the machine starts no more processes, which is the answer then."""
        out, err = os.pipe(), os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            for pipe in (*out, *err):
                os.close(pipe)
            self.sinks["err"].take(f"cannot start a process: {error.strerror}".encode())
            self.status, self.ended = NO_PROCESS, self.began
            return 0
        if pid == 0:
            _child(spec, out[1], err[1])
        os.close(out[1])
        os.close(err[1])
        self.pipes = {out[0]: "out", err[0]: "err"}
        for pipe in self.pipes:
            os.set_blocking(pipe, False)
        return pid

    def read(self, pipe: int) -> bool:
        """Take what a pipe has; returns whether it may have more later."""
        try:
            data = os.read(pipe, CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.sinks[self.pipes[pipe]].take(data)
        return bool(data)

    def look(self, now: float) -> bool:
        """Whether the child has ended or is given up; kill it after its time."""
        if not self.pid:
            return True
        if now >= self.deadline and not self.timed_out:
            self.timed_out = True
            self._kill()
        # The group is killed before its leader is reaped: until then no other group can have its number.
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            self._kill()
            status = os.waitpid(self.pid, 0)[1]
            self.status = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        elif now < self.deadline + KILLED_WITHIN:
            return False
        self.ended = now
        return True

    def _kill(self) -> None:
        # Gone, or a set-user-id program such as sudo: that one is left behind, with its pipes closed on it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def answer(self, now: float) -> "ProbeAnswer":
        """Return the result; `age` is how long ago it ended (s).

        `hung`: it could not even be killed.
        """
        for sink in self.sinks.values():
            sink.end()
        out, err = self.sinks["out"], self.sinks["err"]
        return {
            "rc": self.status,
            "out": out.text(),
            "err": err.text(),
            "elapsed": round(self.ended - self.began, 3),
            "age": round(now - self.ended, 3),
            "timed_out": self.timed_out,
            "hung": self.status is None,
            "dropped": out.dropped,
            "lines": out.lines,
        }


def _child(spec: "ProbeSpec", out: int, err: int) -> None:
    """Become what is asked for; never returns."""
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        for number, stream in enumerate((null, out, err)):
            os.dup2(stream, number)
        os.closerange(3, 256)
        if "argv" in spec:
            words = spec["argv"]
            if words[0].startswith("~"):
                words[0] = str(Path(words[0]).expanduser())
            try:
                os.execvp(words[0], words)
            except OSError as error:
                # As in a shell: not found, or found and not executable (forbidden, or of another architecture).
                _leave(127 if isinstance(error, FileNotFoundError) else 126, "", f"{words[0]}: {error.strerror}")
        else:
            _leave(0, json.dumps(BUILTINS[spec["builtin"]](*spec.get("args", []))), "")
    except BaseException as error:  # noqa: BLE001 -- a forked child must never run on in its parent's code
        _leave(70, "", f"{type(error).__name__}: {error}")


def _leave(code: int, out: str, err: str) -> None:
    """End this child at once, without its parent's exit handlers and buffers."""
    try:
        for number, text in ((1, out), (2, err)):
            data = text.encode("utf-8", "replace")
            while data:
                data = data[os.write(number, data) :]
    finally:
        os._exit(code)


def collect(request: "FactsRequest") -> "dict[str, ProbeAnswer]":
    """Return the results of all probes of a request, run at the same time.

    Each has its own limit.
    """
    path = os.environ.get("PATH", "").split(":")
    os.environ["PATH"] = ":".join(path + [folder for folder in FOLDERS if folder not in path])
    os.environ["LC_ALL"] = "C"
    probes = [Probe(name, spec) for name, spec in request["probes"].items()]
    with selectors.DefaultSelector() as selector:
        for probe in probes:
            for pipe in probe.pipes:
                selector.register(pipe, selectors.EVENT_READ, probe)
        running = list(probes)
        while running:
            for key, _ in selector.select(0.02):
                if not key.data.read(key.fd):
                    selector.unregister(key.fd)
            now = time.monotonic()
            running = [probe for probe in running if not probe.look(now)]
        _drain(selector)
    now = time.monotonic()
    return {probe.name: probe.answer(now) for probe in probes}


def _drain(selector: selectors.BaseSelector) -> None:
    """Read what is left in the pipes of children that have ended.

    Processes that escaped the session are not waited for.
    """
    deadline = time.monotonic() + KILLED_WITHIN
    while time.monotonic() < deadline:
        ready = selector.select(0)
        for key, _ in ready:
            if not key.data.read(key.fd):
                selector.unregister(key.fd)
        if not ready:
            return


def host() -> "dict[str, object]":
    """Return who we are and where."""
    system = os.uname()
    return {
        "hostname": system.nodename,
        "machine": system.machine,
        "kernel": system.release,
        "boot_id": _read("/proc/sys/kernel/random/boot_id").strip(),
        # Containers share a boot, and clones share what is on their disks: this is one machine, or one container.
        "instance": os.readlink("/proc/self/ns/pid"),
        "uptime": float(_read("/proc/uptime").split()[0]),
        "user": _user(os.getuid()),
        "uid": os.getuid(),
    }


def limits() -> "dict[str, object]":
    """Return the limits of this login, and where each comes from.

    `user` are those of a process, `groups` those of the control groups that it is in. `threads` is how many this user
    has now, which counts against `nproc`, except for root.
    """
    uid = os.getuid()
    daemon = _daemon_limits()
    user = {}
    for name, title in (("nofile", "open files"), ("memlock", "locked memory"), ("nproc", "processes")):
        soft, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
        source = _limit_rule(name, hard) or ("sshd" if daemon.get(title) == hard else "")
        user[name] = {"soft": soft, "hard": hard, "source": source}
    return {
        "user": user,
        "groups": _group_limits(),
        "threads": _threads(uid),
        "cores": len(os.sched_getaffinity(0)),
        "root": uid == 0,
    }


def _daemon_limits() -> "dict[str, int]":
    """Return the hard limits of the SSH server that we came by; none without one.

    It is the outermost one: PAM sets limits in the one of our session.
    """
    pid, found = os.getppid(), {}
    while pid > 1:
        status = _read(f"/proc/{pid}/stat").rpartition(")")
        if status[0].partition("(")[2].startswith("sshd"):
            rows = [line[4:].split("  ") for line in _read(f"/proc/{pid}/limits").splitlines() if line[:4] == "Max "]
            columns = [[cell.strip() for cell in row if cell.strip()] for row in rows]
            found = {row[0]: _amount(row[2], 1) for row in columns if len(row) > 2}
        pid = int(status[2].split()[1])
    return found


def _amount(text: str, unit: int) -> int:
    """Return a limit as a number of `unit`; -1 for none, -2 for what is not a number."""
    if text in ("unlimited", "infinity", "-1"):
        return -1
    return int(text) * unit if text.isdigit() else -2


def _limit_rule(item: str, hard: int) -> str:
    """Return `FILE:LINE` of the rule of pam_limits that set this hard limit; an empty string without one."""
    user = _user(os.getuid())
    # A group that no table has is none that a rule could name.
    names = []
    for number in os.getgroups()[:256]:
        with contextlib.suppress(KeyError):
            names.append(f"@{grp.getgrgid(number).gr_name}")
    unit = 1024 if item == "memlock" else 1
    found = ""
    for file in (Path("/etc/security/limits.conf"), *sorted(Path("/etc/security/limits.d").glob("*.conf"))):
        with contextlib.suppress(OSError):
            for at, line in enumerate(_read(str(file)).splitlines()[:MOST_LINES], start=1):
                words = line.partition("#")[0].split()
                ours = len(words) == 4 and words[0] in ("*", user, *names) and words[1] in ("hard", "-")
                if ours and words[2] == item and _amount(words[3], unit) == hard:
                    found = f"{file}:{at}"
    return found


def _group_limits() -> "list[dict[str, object]]":
    """Return the control groups that we are in and that limit processes, the innermost first."""
    found = []
    for line in _read("/proc/self/cgroup").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        if controllers and "pids" not in controllers.split(","):
            continue
        top = Path("/sys/fs/cgroup/pids" if controllers else "/sys/fs/cgroup")
        group = Path(os.path.normpath(f"{top}/{path}"))
        for folder in (group, *group.parents):
            if folder != top and top not in folder.parents:
                break
            # The root of all has no such file.
            with contextlib.suppress(OSError, ValueError):
                most, now = _read(f"{folder}/pids.max").strip(), _read(f"{folder}/pids.current").strip()
                if most != "max":
                    name = str(folder)[len(str(top)) :] or "/"
                    found.append({"name": name[-200:], "limit": int(most), "used": int(now)})
    return found[:32]


def _threads(uid: int) -> int:
    """Return how many threads a user has."""
    total = 0
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdecimal() and folder.stat().st_uid == uid:
                total += os.stat(f"{folder}/task").st_nlink - 2
    return total


def own_name() -> "dict[str, object]":
    """Return how long it takes to resolve the machine's own name (s), and to what."""
    name = socket.gethostname()
    began = time.monotonic()
    addresses: list[str] = []
    error = ""
    try:
        addresses = sorted({str(found[4][0]) for found in socket.getaddrinfo(name, None)})
    except OSError as problem:
        error = str(problem)
    return {"name": name, "seconds": time.monotonic() - began, "addresses": addresses, "error": error}


def space(path: str) -> "dict[str, object]":
    """Return the free bytes and inodes where `path` is, or will be.

    Also whether this user may write there.
    """
    at = Path(path).expanduser()
    while not at.exists() and at != at.parent:
        at = at.parent
    found = os.statvfs(str(at))
    return {
        "path": path,
        "at": str(at),
        "bytes": found.f_blocks * found.f_frsize,
        "free": found.f_bavail * found.f_frsize,
        "inodes": found.f_files,
        "free_inodes": found.f_favail,
        "writable": os.access(at, os.W_OK),
        "read_only": bool(found.f_flag & os.ST_RDONLY),
        # Of an overlay, each folder may be a device of its own. Python 3.6 has no `f_fsid`, and not all systems set it.
        "device": str(getattr(found, "f_fsid", 0) or os.stat(str(at)).st_dev),
    }


def trial(path: str, *wants: str) -> "dict[str, object]":
    """Make a file where a folder is or will be, and return what failed of it.

    The file is written and synced; `execute` and `socket` are further things to try with it. It loses its name as soon
    as it has been made, so that nothing is left, whenever we are killed.
    """
    at = _existing(path)
    kind, source, point = _mount(at)
    found: dict[str, object] = {"path": path, "at": str(at)[:512], "type": kind, "source": source, "mount": point}
    failed: list[dict[str, str]] = []
    name = f"{at}/.nvlaunch-trial-{os.getpid()}-{os.urandom(4).hex()}"
    step = "create a file"
    handle = -1
    try:
        if not at.is_dir():
            raise OSError(errno.ENOENT if at.is_symlink() else errno.ENOTDIR, "")
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o700)
        os.unlink(name)
        step = "write a file"
        content = TRIAL
        while content:
            content = content[os.write(handle, content) :]
        os.fsync(handle)
        for step, act in (("execute", _execute), ("socket", _bind)):
            if step in wants:
                try:
                    act(handle, name)
                except OSError as error:
                    failed.append(_failure(step, error))
    except OSError as error:
        failed.append(_failure(step, error))
    finally:
        if handle >= 0:
            os.close(handle)
    return dict(found, failed=failed)


def _existing(path: str) -> Path:
    """Return a path, or the nearest above it that is there: what will be made is made inside of that."""
    at = Path(path).expanduser()
    while not os.path.lexists(str(at)) and at != at.parent:
        at = at.parent
    return at


def _failure(step: str, error: OSError) -> "dict[str, str]":
    number = error.errno or 0
    return {"step": step, "errno": errno.errorcode.get(number, str(number)), "message": os.strerror(number)}


def _execute(handle: int, _name: str) -> None:
    """Execute a file that has no name any more; OSError where that is refused."""
    # A file that is open for writing cannot be executed.
    readable = os.open(f"/proc/self/fd/{handle}", os.O_RDONLY)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, handle)
    os.close(null)
    try:
        pid = os.fork()
        if pid == 0:
            try:
                os.set_inheritable(readable, True)  # the shell opens it again
                os.execv(f"/proc/self/fd/{readable}", ["trial"])
            except OSError as error:
                os._exit(error.errno or errno.EIO)
            finally:
                os._exit(errno.EIO)
        status = os.waitpid(pid, 0)[1]
    finally:
        os.close(readable)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else errno.EIO
    if code:
        raise OSError(code, "")


def _bind(_handle: int, name: str) -> None:
    """Make a socket and remove it."""
    with socket.socket(socket.AF_UNIX) as made:
        try:
            made.bind(name)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)


def _mount(at: Path) -> "tuple[str, str, str]":
    """Return the type, the source and the place of the file system that a path is on."""
    where = os.path.realpath(str(at))
    best = ("", "", "")
    for line in _read("/proc/self/mountinfo", 1024 * 1024).splitlines():
        before, _, after = line.partition(" - ")
        words, rest = before.split(), after.split()
        if len(words) < 5 or len(rest) < 2:
            continue
        root, point = (word.replace("\\040", " ") for word in words[3:5])
        if (where + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best[2]):
            below = "" if root == "/" else root
            best = (rest[0][:64], (rest[1] + below)[:256], point[:256])
    return best


def lease_place(*paths: str) -> "dict[str, object]":
    """Return the path at which a lease can be taken (`usable`), and what failed of the others.

    A lease that is there is opened as its holder does, and a file is made beside it, since a holder writes into it.
    """
    failed: list[dict[str, str]] = []
    for path in paths:
        found = _lease_failure(path)
        if found is None:
            return {"usable": path, "failed": failed}
        failed.append(dict(found, path=path))
        if found["errno"] not in NOT_HERE:
            break
    return {"usable": None, "failed": failed}


def _lease_failure(path: str) -> "dict[str, str] | None":
    folder = os.path.dirname(path)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK))
        there = True
    except FileNotFoundError:
        there = False
        if not os.path.isdir(folder):
            return _failure("open", OSError(errno.ENOENT, ""))
    except OSError as error:
        return _failure("open", error)
    tried = trial(folder)["failed"]
    # A lease of another user is used as it is: its folder need not be open to us.
    told = [one for one in tried if not (there and one["errno"] in NOT_HERE)] if isinstance(tried, list) else []
    return told[0] if told else None


def memory() -> "dict[str, object]":
    """Return the memory and what is available of it (bytes).

    Also how long programs waited for it (% of a minute).
    """
    rows = (line.split() for line in _read("/proc/meminfo").splitlines())
    sizes = {row[0]: int(row[1]) * 1024 for row in rows if len(row) > 1}
    stalled = 0.0
    # Older kernels have no such file.
    with contextlib.suppress(OSError, ValueError, StopIteration):
        full = next(line for line in _read("/proc/pressure/memory").splitlines() if line.startswith("full"))
        stalled = float(full.partition("avg60=")[2].split()[0])
    return {"total": sizes["MemTotal:"], "available": sizes["MemAvailable:"], "stalled": stalled}


def content(path: str) -> "str | None":
    """Return what a small file says; nothing where there is none."""
    file = Path(path).expanduser()
    return _read(str(file)) if file.exists() else None


def ports() -> "list[int]":
    """Return the TCP ports that somebody listens on, of any user."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if Path(table).exists():
            rows = [line.split() for line in _read(table, 16 * 1024 * 1024).splitlines()[1:]]
            found |= {int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and row[3] == "0A"}
    return sorted(found)


def lease(*paths: str) -> "dict[str, str]":
    """Return what the holder of the machine's lease wrote (`holder`).

    The first path counts that is held. Looking shares the lock for an instant; a program that takes the lease tries for
    longer.
    """
    for path in paths:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return {"holder": os.read(handle, 4096).decode("utf-8", "replace").strip() or "an unnamed run"}
        finally:
            os.close(handle)
    return {}


class RunningProcess:
    """A process as /proc shows it.

    A title, such as Ray sets, overwrites the environment: marks are taken from ancestors too.
    """

    def __init__(self, pid: int) -> None:
        folder = f"/proc/{pid}/"
        command = _read(folder + "comm").strip()
        title = _read(folder + "cmdline").replace("\0", " ").strip()
        environ = ""
        with contextlib.suppress(PermissionError):
            environ = _read(folder + "environ", 1024 * 1024)
        variables = dict(item.partition("=")[::2] for item in environ.split("\0") if item.startswith("NVLAUNCH_"))
        self.pid = pid
        self.parent = int(_read(folder + "stat").rpartition(")")[2].split()[1])
        self.uid = Path(folder).stat().st_uid
        self.name = title[:120] or command
        self.ray = command in ("raylet", "gcs_server") or title.startswith("ray::")
        self.mark = variables.get("NVLAUNCH_MARK")
        self.agent = variables.get("NVLAUNCH_AGENT")


def processes() -> "list[dict[str, object]]":
    """Return the processes of Ray, and those with a mark of nvlaunch.

    The program that asks is not among them.
    """
    table: dict[int, RunningProcess] = {}
    for folder in Path("/proc").iterdir():
        # A process that has ended meanwhile has no files any more.
        with contextlib.suppress(OSError, ValueError, IndexError):
            if folder.name.isdecimal():
                table[int(folder.name)] = RunningProcess(int(folder.name))
    found = []
    for pid in sorted(table):
        line = _line(pid, table)
        process, mark = table[pid], next((one.mark for one in line if one.mark), None)
        # The program that asks is below our parent.
        if (process.ray or process.agent or mark) and all(one.pid != os.getppid() for one in line):
            shown = {"user": _user(process.uid), "name": process.name, "ray": process.ray}
            found.append(dict(shown, pid=pid, mark=mark, agent=process.agent))
    return found[:MOST_PROCESSES]


def _line(pid: int, table: "dict[int, RunningProcess]") -> "list[RunningProcess]":
    """Return a process and its ancestors, nearest first."""
    found: list[RunningProcess] = []
    while pid in table and table[pid] not in found:
        found.append(table[pid])
        pid = table[pid].parent
    return found


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def slurm() -> "dict[str, object]":
    """Return what Slurm does on this machine.

    Whether its daemon runs, the jobs with a step here and their users, the job whose control group this session was put
    into, and the line of PAM that puts it there. `installed` are the GPUs that the kernel has; a session may see fewer.
    """
    daemon, steps, owners = False, {}, {}
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if folder.name.isdecimal():
                command, uid = _read(f"{folder}/comm").strip(), folder.stat().st_uid
                daemon = daemon or command == "slurmd"
                job = re.match(r"slurmstepd: \[(\d+)", _read(f"{folder}/cmdline")) if command == "slurmstepd" else None
                if job:
                    steps[int(folder.name)] = job.group(1)
                elif uid:
                    owners[int(_read(f"{folder}/stat").rpartition(")")[2].split()[1])] = uid
    jobs: dict[str, str] = {}
    for pid, number in steps.items():
        jobs[number] = _user(owners[pid]) if pid in owners else jobs.get(number, "")
    line = ""
    with contextlib.suppress(OSError):
        rows = (row.strip() for row in _read("/etc/pam.d/sshd").splitlines())
        line = next((row for row in rows if "pam_slurm" in row and not row.startswith("#")), "")
    adopted = re.search(r"/slurm.*/job_(\d+)", _read("/proc/self/cgroup"))
    gpus = Path("/proc/driver/nvidia/gpus")
    return {
        "daemon": daemon,
        "jobs": dict(sorted(jobs.items())[:64]),
        "pam": line[:200],
        "adopted": adopted.group(1) if adopted else "",
        "installed": len(os.listdir(str(gpus))) if gpus.is_dir() else 0,
    }


def infiniband(top: str = "/sys/class/infiniband") -> "list[dict[str, str]]":
    """Return the ports of all InfiniBand and RoCE devices."""
    found = []
    for port in sorted(Path(top).glob("*/ports/*")):
        values = {key: _read(str(port / key)).strip() for key in ("state", "phys_state", "rate")}
        found.append(dict(values, device=port.parent.parent.name, port=port.name))
    return found


def engine_info(*argv: str) -> "dict[str, object]":
    """Return what the `info` of an engine of containers writes, and the room where it keeps images."""
    told = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: UP022 -- Python 3.6
    if told.returncode:
        raise RuntimeError(told.stderr.decode("utf-8", "replace")[:MOST_LINE].strip())
    text = told.stdout.decode("utf-8", "replace")[:CHUNK]
    root = ""
    with contextlib.suppress(ValueError, AttributeError):
        info = json.loads(text)
        root = str(info.get("DockerRootDir") or (info.get("store") or {}).get("graphRoot") or "")
    # The folder of a daemon elsewhere is not here.
    return {"info": text, "space": space(root) if root and os.path.isdir(root) else None}


def container_host() -> "dict[str, object]":
    """Return what containers need beside an engine.

    Of logins to registries only names are read out: never what a file says of them.
    """
    home = os.path.expanduser("~")
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    docker = os.environ.get("DOCKER_CONFIG") or f"{home}/.docker"
    files = (
        os.environ.get("REGISTRY_AUTH_FILE") or f"{runtime}/containers/auth.json",
        f"{home}/.config/containers/auth.json",
        f"{docker}/config.json",
        f"{home}/.apptainer/docker-config.json",
    )
    logins, helper = set(), False
    for path in files:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            found = json.loads(_read(path, 1024 * 1024))
            names = [*(found.get("auths") or {}), *(found.get("credHelpers") or {})]
            logins |= {re.sub("^https?://", "", name).partition("/")[0] for name in names}
            helper = helper or bool(found.get("credsStore"))
    with contextlib.suppress(OSError):  # that of enroot, in the format of `netrc`
        words = _read(f"{os.environ.get('ENROOT_CONFIG_PATH') or home + '/.config/enroot'}/.credentials").split()
        logins |= {words[at] for at in range(1, len(words)) if words[at - 1] == "machine"}
    line = ""
    with contextlib.suppress(OSError):
        line = _read("/etc/fuse.conf")
    return {
        "toolkit": any(shutil.which(name) for name in TOOLKIT),
        "cdi": _cdi_files("/etc/cdi", "/var/run/cdi"),
        "logins": sorted(logins)[:64],
        "helper": helper,
        "fuse": {
            "device": os.access("/dev/fuse", os.R_OK | os.W_OK),
            "program": any(shutil.which(name) for name in ("fusermount3", "fusermount")),
            "allow_other": re.search(r"(?m)^\s*user_allow_other\b", line) is not None,
        },
    }


def _cdi_files(*folders: str) -> "list[str]":
    """Return the files of the Container Device Interface that describe GPUs of NVIDIA."""
    found = []
    for path in sorted(path for folder in folders for path in Path(folder).glob("*")):
        with contextlib.suppress(OSError):
            if re.search(r"""(?m)^\s*"?kind"?:\s*"?nvidia\.com/gpu\b""", _read(str(path), 1024 * 1024)):
                found.append(str(path))
    return found[:64]


def imex_files(folder: str, channel: str) -> "dict[str, object]":
    """Return the files of IMEX with their hashes, and the state of the channel."""
    found: dict[str, object] = {"nodes": None, "config": None, "nodes_hash": None, "config_hash": None}
    for key, name in (("nodes_hash", "nodes_config.cfg"), ("config_hash", "config.cfg")):
        file = Path(folder, name)
        if file.exists():
            content = file.read_bytes()
            found[key] = hashlib.sha256(content).hexdigest()
            lines = content.decode("utf-8", "replace").splitlines()[:MOST_LINES]
            found[key[:-5]] = [line.strip()[:256] for line in lines if line.strip()]
    found["channel"] = Path(channel).exists()
    found["channel_usable"] = os.access(channel, os.R_OK | os.W_OK)
    return found


def _read(path: str, most: int = CHUNK) -> str:
    with Path(path).open("rb") as file:
        return file.read(most).decode("utf-8", "replace")


BUILTINS: "dict[str, Callable[..., object]]" = {
    "host": host,
    "limits": limits,
    "own_name": own_name,
    "space": space,
    "trial": trial,
    "lease_place": lease_place,
    "slurm": slurm,
    "memory": memory,
    "content": content,
    "ports": ports,
    "lease": lease,
    "processes": processes,
    "infiniband": infiniband,
    "engine_info": engine_info,
    "container_host": container_host,
    "imex_files": imex_files,
}


def main() -> None:
    """Read a request, answer it."""
    answer = collect(json.load(sys.stdin))
    sys.stdout.write("\n" + ANSWER + json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
