"""PID 1 of a host: makes its root, starts sshd, reaps orphans, and does a few things that only a process inside can.

It is forked from the warden and never executes anything else, so that it needs nothing of the host's own disk.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import time
import traceback
import uuid
from pathlib import Path
from typing import Any, NoReturn

from tests.rig import kernel
from tests.rig.plan import Plan, Slot, host_lines

_PATH = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
_SSHD = ("/usr/sbin/sshd", "-D", "-f", "/etc/ssh/sshd_config", "-E", "/var/log/auth.log")
_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
_LINKS = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_PATIENCE = 20  # seconds for sshd to listen, on a machine that starts a hundred of them


def become(plan: Plan, slot: Slot, warden: int, control: socket.socket) -> NoReturn:
    """Turn this fresh child of the warden into PID 1 of a host; it says `isolated`, waits for its cable, says `up`."""
    try:
        kernel.die_with_parent(warden)
        os.setsid()
        kernel.unshare(kernel.NEWNS | kernel.NEWUTS | kernel.NEWIPC | kernel.NEWNET)
        control.send(b"isolated")
        kernel.name_process("init")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)  # which the kernel ignores for PID 1
        kernel.name_machine(slot.name)
        _make_root(plan, Path(plan.folder, "world"), slot)
        if control.recv(100) != b"go":
            os._exit(1)
        _make_network(slot)
        init = _Init(control)
        init.start_sshd()
        control.send(b"up")
        init.serve()
    except BaseException:  # noqa: BLE001 the only witness of a failed boot is this message
        with contextlib.suppress(OSError):
            control.send(traceback.format_exc()[-4000:].encode())
    os._exit(1)


def _make_root(plan: Plan, world: Path, slot: Slot) -> None:
    base = world / "hosts" / slot.name
    root = base / "root"
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("overlay", root, "overlay", options=_overlay(f"{world}/common:/", base / "disk"))
    for path in plan.hidden:
        (root / path[1:]).mkdir(exist_ok=True)
        kernel.mount(str(base / "disk" / "own" / path[1:]), root / path[1:], flags=kernel.MS_BIND)
    kernel.mount("tmpfs", root / "tmp", "tmpfs", options=f"mode=1777,size={plan.sizes.tmp},nr_inodes=1m")
    kernel.mount("tmpfs", root / "run", "tmpfs", options=f"mode=755,size={plan.sizes.run},nr_inodes=1m")
    for number, path in enumerate(plan.exposed):
        target = root / path[1:]
        target.mkdir(parents=True, exist_ok=True)
        kernel.mount("overlay", target, "overlay", options=_overlay(path, base / "disk" / f"exposed{number}"))
    (root / "shared").mkdir(exist_ok=True)
    kernel.mount(str(world / "shared"), root / "shared", flags=kernel.MS_BIND)
    kernel.mount("proc", root / "proc", "proc")
    _make_dev(root / "dev", plan.sizes.shm)
    kernel.change_root(root)
    os.umask(0)
    for path, mode in (("/run/lock", 0o1777), ("/run/user", 0o755), ("/run/sshd", 0o755)):
        Path(path).mkdir(mode=mode)
    os.umask(0o022)
    Path("/run/boot_id").write_text(f"{uuid.uuid4()}\n")
    kernel.mount("/run/boot_id", _BOOT_ID, flags=kernel.MS_BIND)


def _overlay(lower: str, disk: Path) -> str:
    return f"lowerdir={lower},upperdir={disk}/up,workdir={disk}/work"


def _make_dev(dev: Path, shm: str) -> None:
    kernel.mount("tmpfs", dev, "tmpfs", kernel.MS_NOSUID, "mode=755,size=1m")
    os.umask(0)
    for name, (major, minor) in _DEVICES.items():
        os.mknod(dev / name, 0o020666, os.makedev(major, minor))
    for name in ("pts", "shm"):
        (dev / name).mkdir(mode=0o755)
    for name, target in _LINKS.items():
        (dev / name).symlink_to(target)
    os.umask(0o022)
    kernel.mount("devpts", dev / "pts", "devpts", kernel.MS_NOSUID, "newinstance,ptmxmode=0666,mode=620,gid=5")
    kernel.mount("tmpfs", dev / "shm", "tmpfs", kernel.MS_NOSUID, f"mode=1777,size={shm},nr_inodes=1m")


def _make_network(slot: Slot) -> None:
    kernel.silence_ipv6("eth0")
    lines = "\n".join(host_lines(slot))
    subprocess.run(["ip", "-batch", "-"], input=lines, text=True, check=True, env=_PATH, capture_output=True)


class _Init:
    """The life of PID 1 after boot."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._reaping = True
        self._listeners: dict[int, int] = {}
        woken, waker = os.pipe()
        os.set_blocking(waker, False)
        os.set_blocking(woken, False)
        self._woken = woken
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def start_sshd(self) -> None:
        """Start sshd and return once it listens."""
        daemon = subprocess.Popen(_SSHD, env=_PATH, stdin=subprocess.DEVNULL, cwd="/")
        until = time.monotonic() + _PATIENCE
        pause = 0.01
        while not _listening(22):
            if daemon.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"sshd does not listen: {Path('/var/log/auth.log').read_text()}")
            time.sleep(pause)
            pause = min(2 * pause, 0.1)  # a hundred hosts start at once

    def serve(self) -> NoReturn:
        """Reap whoever ends and obey the warden, for ever."""
        while True:
            select.select([self._control.fileno(), self._woken], [], [])
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, 4096)
            if self._reaping:
                self._reap()
            with contextlib.suppress(BlockingIOError):
                request = self._control.recv(4096, socket.MSG_DONTWAIT)
                if not request:
                    os._exit(0)
                self._control.send(json.dumps(self._answer(json.loads(request))).encode())

    @staticmethod
    def _reap() -> None:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            if "reap" in request:
                self._reaping = bool(request["reap"])
                os.kill(os.getpid(), signal.SIGCHLD)  # come round once more, for those that ended meanwhile
            if "sshd" in request:
                self.start_sshd()
            if "listen" in request:
                self._listen(request["listen"])
            if "close" in request:
                self._close(request["close"])
        except (OSError, RuntimeError, KeyError) as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {}

    def _listen(self, port: int) -> None:
        """Have a child hold `port`: the kernel completes connections, nobody ever reads or speaks."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("0.0.0.0", port))
        listener.listen(1024)
        pid = os.fork()
        if pid == 0:
            kernel.name_process("listener")
            while True:
                signal.pause()
        self._listeners[port] = pid
        listener.close()

    def _close(self, port: int) -> None:
        """End the child that holds `port`, and return once the port is free: sshd may be next to want it."""
        pid = self._listeners.pop(port)
        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _listening(port: int) -> bool:
    wanted = f":{port:04X}"
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return any(row[1].endswith(wanted) and row[3] == "0A" for row in rows)
