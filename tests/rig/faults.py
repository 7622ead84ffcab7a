"""What can go wrong on a host that is on, one method a fault; each names its cure."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from tests.rig.errors import RigError
from tests.rig.inside import OWN_MOUNTS, Inside
from tests.rig.layer import accounts, make_key, sshd_config

_INODES = 1_000_000
_PIDS = Path("/sys/fs/cgroup/pids")
_SYSTEM_PYTHONS = "/usr/bin/python3* /usr/local/bin/python3*"
_DATE = '#!/bin/sh\nexec /usr/bin/date -d "now {offset:+d} seconds" "$@"\n'
_OTHER_PYTHON = """\
import sys, collections, platform; \
fields = 'major minor micro releaselevel serial'; \
sys.version_info = collections.namedtuple('version_info', fields)({parts}, 'final', 0); \
sys.version = '{version} (main)'; sys.hexversion = {hexversion}; platform.python_version = lambda: '{version}'
"""


class Faults(Inside):
    """The faults of a host. They live on its disk, its mounts and its PID 1, and go with `boot(reimaged=True)`."""

    # sshd

    def stop_sshd(self, sessions: bool = False) -> None:
        """Stop sshd, so that connections are refused; open sessions go on unless `sessions`. Cure: `start_sshd`."""
        self.run(["sh", "-c", "kill $(cat /run/sshd.pid)"])
        _until(lambda: "sshd.pid" not in self.run(["ls", "/run"]).stdout, f"sshd of `{self.name}` stops")
        if sessions:
            self.end_ssh_sessions()

    def start_sshd(self) -> None:
        """Start sshd and return once it listens."""
        self._tell(sshd=True)

    def end_ssh_sessions(self) -> None:
        """Kill what serves open SSH sessions; their commands go on, as they do on real hosts."""
        for process in self.processes():
            if process.argv[0].startswith("sshd:") and "[listener]" not in " ".join(process.argv):
                with contextlib.suppress(ProcessLookupError):  # one of a pair goes with the other
                    self.kill(process.pid)

    def sshd_options(self, **options: str) -> None:
        """Start sshd again with options, such as `MaxStartups="2:50:4"`; none: OpenSSH's defaults."""
        self.write("/etc/ssh/sshd_config", sshd_config(options))
        self.stop_sshd()
        self.start_sshd()

    def rekey(self) -> None:
        """Give sshd another host key; `host_key` and the rig's known_hosts file keep the old one."""
        path = Path(self._ground.plan.folder, f"rekey-{self.name}")
        try:
            make_key(path, f"root@{self.name}")
            self.write("/etc/ssh/ssh_host_ed25519_key", path.read_text(), mode=0o600)
        finally:
            path.unlink(missing_ok=True)
            path.with_suffix(".pub").unlink(missing_ok=True)
        self.stop_sshd()
        self.start_sshd()

    def tarpit(self, on: bool) -> None:
        """Have port 22 accept and never speak, in place of sshd; open sessions go on."""
        if on:
            self.stop_sshd()
            self.take_port(22)
        else:
            self.free_port(22)
            self.start_sshd()

    # processes

    def take_port(self, port: int) -> None:
        """Have a foreign process hold a port. Cure: `free_port`."""
        self._tell(listen=port)

    def free_port(self, port: int) -> None:
        """Let the port go."""
        self._tell(close=port)

    def reap(self, on: bool) -> None:
        """Have PID 1 leave orphans that ended as zombies, or reap them again."""
        self._tell(reap=on)

    def limit_processes(self, room: int | None) -> None:
        """Let the host have no more than `room` processes and threads beside those that it has; None: no limit.

        As with `pids.max` of a container or `TasksMax` of a login: what is there already goes on.
        """
        group = _PIDS / f"rig-{self._ground.plan.range}-{self.name}"
        group.mkdir(exist_ok=True)
        for _ in range(3):  # who is born meanwhile is moved by the next round
            for process in [self.pid, *(one.pid for one in self.processes())]:
                with contextlib.suppress(ProcessLookupError):
                    (group / "cgroup.procs").write_text(str(process))
        limit = "max" if room is None else str(int((group / "pids.current").read_text()) + room)
        (group / "pids.max").write_text(limit)

    def forget_limit(self) -> None:
        """Remove what `limit_processes` made, once the host is off."""
        group = _PIDS / f"rig-{self._ground.plan.range}-{self.name}"
        end = time.monotonic() + 10
        while group.exists():
            try:
                group.rmdir()
            except OSError:  # its last process is still dying
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)

    # disk

    def fill_disk(self, path: str = "/", inodes: bool = False) -> None:
        """Leave no room (or no inodes) on the file system of `path`, at no cost in memory. Cure: `free_disk`."""
        usage = os.statvfs(self._seen_from_here(path))
        used = max(usage.f_blocks - usage.f_bfree, 1) * usage.f_frsize
        files = usage.f_files - usage.f_ffree
        self._resize(path, None if inodes else str(used), files if inodes else _INODES)

    def free_disk(self, path: str = "/") -> None:
        """Give the file system of `path` its room back."""
        self._resize(path, None, _INODES)

    def _resize(self, path: str, size: str | None, inodes: int) -> None:
        sizes = self._ground.plan.sizes
        mount = _own_mount(path)
        usual = {"/tmp": sizes.tmp, "/run": sizes.run, "/dev/shm": sizes.shm}.get(mount, sizes.disk)
        if mount == "/":
            self._ground.ask("resize", host=self.name, size=size or usual, inodes=inodes)
        else:
            self.run(["mount", "-o", f"remount,size={size or usual},nr_inodes={inodes}", mount])

    def _seen_from_here(self, path: str) -> Path:
        mount = _own_mount(path)
        return self._ground.disk(self.name) if mount == "/" else Path(f"/proc/{self.pid}/root{mount}")

    def read_only(self, path: str, on: bool) -> None:
        """Make a folder, such as a home, read-only, or writable again."""
        if on:
            self.run(["mount", "--bind", path, path])
            self.run(["mount", "-o", "remount,bind,ro", path])
        else:
            self.run(["umount", "-l", path])

    # software and names

    def shift_clock(self, seconds: int) -> None:
        """Have `date` be wrong by `seconds`; the machine's clock is never touched. Cure: 0."""
        if seconds:
            self.write("/usr/local/bin/date", _DATE.format(offset=seconds), mode=0o755)
        else:
            self.run(["rm", "-f", "/usr/local/bin/date"])

    def lose_name(self, on: bool = True) -> None:
        """Let the host's own name be unknown to it, and its name server be silent."""
        own = f"{self.address} {self.name}"
        lines = [line for line in self.read("/etc/hosts").splitlines() if line != own]
        server = f"10.{self._ground.plan.range}.255.252" if on else "127.0.0.1"
        self.write("/etc/hosts", "\n".join(lines if on else [*lines, own]) + "\n")
        self.write("/etc/resolv.conf", f"nameserver {server}\n")

    def hide_python(self, hidden: bool = True) -> None:
        """Take the given interpreter and those of the system away, or bring them back."""
        given = f"{Path(self._ground.python).parent}/python*" if self._ground.python else ""
        forth = 'case "$p" in *.gone) ;; *) mv "$p" "$p.gone" ;; esac'
        back = 'case "$p" in *.gone) mv "$p" "${p%.gone}" ;; esac'
        there = '[ -L "$p" ] || [ -e "$p" ] || continue'
        each = f"for p in {given} {_SYSTEM_PYTHONS}; do {there}; {forth if hidden else back}; done"
        self.run(["sh", "-c", each])

    def ray_version(self, version: str) -> None:
        """Have the given interpreter's Ray say that it is of another version, by import and by its metadata."""
        script = (
            'cd "$1" && sed -i "s/^version = .*/version = \\"$2\\"/" ray/_version.py'
            ' && sed -i "s/^Version: .*/Version: $2/" ray-*.dist-info/METADATA && rm -rf ray/__pycache__/_version.*'
        )
        self.run(["sh", "-c", script, "sh", self._site_packages(), version])

    def python_version(self, version: str) -> None:
        """Have the given interpreter say that it is of another version, such as `3.9.18`."""
        major, minor, micro = (int(part) for part in version.split("."))
        hexversion = (major << 24) + (minor << 16) + (micro << 8) + 0xF0
        parts = f"{major}, {minor}, {micro}"
        line = _OTHER_PYTHON.format(parts=parts, version=version, hexversion=hexversion)
        self.write(f"{self._site_packages()}/rig_other_python.pth", line)

    def _site_packages(self) -> str:
        if self._ground.python is None:
            raise RigError("the rig was given no `python=`")
        asked = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
        return self.run([self._ground.python, "-I", "-c", asked]).stdout.strip()

    # logins

    def logind(self, kill_user_processes: bool = False, remove_ipc: bool = True) -> None:
        """Write logind's settings; what they do at a logout is done by `last_logout`."""
        settings = {"KillUserProcesses": kill_user_processes, "RemoveIPC": remove_ipc}
        text = "".join(f"{key}={'yes' if value else 'no'}\n" for key, value in settings.items())
        self.write("/etc/systemd/logind.conf", f"[Login]\n{text}")

    def last_logout(self, user: str) -> None:
        """Do what logind does when a user's last session ends, by its settings on this host.

        Processes started by `systemd-run --user` and those of lingering users are spared, as logind spares them.
        """
        settings = self.run(["cat", "/etc/systemd/logind.conf"], check=False).stdout
        lingers = self.run(["test", "-e", f"/var/lib/systemd/linger/{user}"], check=False).returncode == 0
        managed = _with_offspring({process.pid for process in self.processes("RIG_USER_MANAGER=yes", user)})
        self.end_ssh_sessions()
        if "KillUserProcesses=yes" in settings and user != "root":
            for process in self.processes(user=user):
                if not (lingers and process.pid in managed):
                    with contextlib.suppress(ProcessLookupError):  # it went with its parent
                        self.kill(process.pid)
        if "RemoveIPC=no" not in settings and user != "root" and not lingers:
            self.run(["find", "/dev/shm", "-mindepth", "1", "-uid", str(accounts()[user].uid), "-delete"])

    def _tell(self, **what: object) -> None:
        answer = self._ground.ask("tell", host=self.name, what=what)
        if "error" in answer:
            raise RigError(f"host `{self.name}`: {answer['error']}")


def can_limit_processes() -> bool:
    """Whether this machine has the controller that `limit_processes` needs (of cgroups version 1)."""
    return (_PIDS / "cgroup.procs").exists()


def _with_offspring(pids: set[int]) -> set[int]:
    """Return processes and all below them: what a scope holds, whatever became of its environment."""
    below: dict[int, set[int]] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            below.setdefault(parent, set()).add(int(entry.name))
    found, new = set(pids), set(pids)
    while new:
        new = {child for pid in new for child in below.get(pid, ())} - found
        found |= new
    return found


def _own_mount(path: str) -> str:
    return next((mount for mount in OWN_MOUNTS if path == mount or path.startswith(f"{mount}/")), "/")


def _until(holds: Callable[[], bool], what: str, patience: float = 10) -> None:
    until = time.monotonic() + patience
    while not holds():
        if time.monotonic() > until:
            raise RigError(f"waited {patience} s in vain until {what}")
        time.sleep(0.01)
