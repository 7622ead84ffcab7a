"""The one process that owns a rig's world: its mounts, its router and PID 1 of each host.

Nothing of a rig has a name outside of the namespaces that hang on this process, except one interface of the launching
side, and the kernel removes that with the router. So however a test ends, killing the warden ends its rig: the kernel
kills each PID 1 with it, and with that everything in the hosts. It ends by itself when its owner does.

Started as `python -m tests.rig.warden FOLDER`; the plan and then requests come as lines of JSON.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.rig import init, kernel
from tests.rig.identity import birth
from tests.rig.plan import Plan, Slot, cable_lines, router_lines

_BOOT_PATIENCE = 30  # seconds
_INODES = 1_000_000


class _Host:
    """What the warden keeps of a host that is on."""

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid = pid
        self.control = control


class Warden:
    """The world of one rig."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._world = Path(plan.folder, "world")
        self._hosts: dict[str, _Host] = {}
        self._own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY)

    def make_world(self) -> None:
        """Make the mounts that hosts boot from, and the router."""
        kernel.unshare(kernel.NEWNS | kernel.NEWNET)
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
        self._world.mkdir()
        kernel.mount("tmpfs", self._world, "tmpfs", options="mode=755")
        (self._world / "common").mkdir()
        (self._world / "shared").mkdir()
        (self._world / "shared").chmod(0o1777)
        for slot in self._plan.slots.values():
            disk = self._disk(slot.name)
            disk.mkdir(parents=True)
            (disk.parent / "root").mkdir()
            kernel.mount("tmpfs", disk, "tmpfs", options=f"mode=755,size={self._plan.sizes.disk},nr_inodes={_INODES}")
            self._make_disk(disk)
        for name, value in (("ipv4/ip_forward", 1), ("ipv4/conf/all/rp_filter", 0), ("ipv4/conf/default/rp_filter", 0)):
            Path("/proc/sys/net", name).write_text(f"{value}\n")
        kernel.silence_ipv6("default")
        _ip(router_lines(self._plan))

    def _disk(self, name: str) -> Path:
        return self._world / "hosts" / name / "disk"

    def _make_disk(self, disk: Path) -> None:
        for name in ("", *(f"exposed{number}" for number in range(len(self._plan.exposed)))):
            for part in ("up", "work"):
                (disk / name / part).mkdir(parents=True)
        for path in self._plan.hidden:
            (disk / "own" / path[1:]).mkdir(parents=True)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what is asked; an error comes back as its text."""
        try:
            return getattr(self, f"do_{request.pop('do')}")(**request) or {}
        except (OSError, RuntimeError, KeyError, TypeError) as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def do_boot(self, hosts: dict[str, int]) -> dict[str, Any]:
        """Boot hosts, named with the number of the boot, all at once; return the pid of each PID 1."""
        for name in hosts:
            self._bury(name)
            if name in self._hosts:
                raise RuntimeError(f"host `{name}` is on")
        try:
            for name in hosts:
                self._hosts[name] = self._fork(self._plan.slots[name])
            for name in hosts:
                self._expect(name, b"isolated")
            cables = (
                cable_lines(self._plan.slots[name], boots, self._hosts[name].pid) for name, boots in hosts.items()
            )
            _ip([line for lines in cables for line in lines])
            for name in hosts:
                self._hosts[name].control.send(b"go")
            for name in hosts:
                self._expect(name, b"up")
        except BaseException:
            self._halt(*hosts)
            raise
        return {"pids": {name: self._hosts[name].pid for name in hosts}}

    def _fork(self, slot: Slot) -> _Host:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        warden = os.getpid()
        kernel.unshare(kernel.NEWPID)
        pid = os.fork()
        if pid == 0:
            ours.close()
            for other in self._hosts.values():
                other.control.close()
            _forget_standard_streams()
            init.become(self._plan, slot, warden, theirs)
        kernel.join(self._own_pids, kernel.NEWPID)
        theirs.close()
        ours.settimeout(_BOOT_PATIENCE)
        return _Host(pid, ours)

    def _expect(self, name: str, word: bytes) -> None:
        said = self._hosts[name].control.recv(8192)
        if said != word:
            raise RuntimeError(f"host `{name}` did not boot: {said.decode() or 'its PID 1 is gone'}")

    def do_ip(self, lines: list[str]) -> None:
        """Run lines of `ip -batch` on the router."""
        _ip(lines)

    def do_tell(self, host: str, what: dict[str, Any]) -> dict[str, Any]:
        """Pass a request to PID 1 of a host and answer what it answers."""
        control = self._hosts[host].control
        control.send(json.dumps(what).encode())
        answer: dict[str, Any] = json.loads(control.recv(8192) or b'{"error": "PID 1 is gone"}')
        return answer

    def do_halt(self, host: str) -> None:
        """Kill PID 1 of a host and wait until the kernel has killed the rest of it."""
        self._halt(host)

    def _halt(self, *names: str) -> None:
        hosts = [self._hosts.pop(name) for name in names if name in self._hosts]
        for host in hosts:
            os.kill(host.pid, signal.SIGKILL)  # our own child, not reaped yet: the number is still its
        for host in hosts:
            os.waitpid(host.pid, 0)
            host.control.close()

    def _bury(self, name: str) -> None:
        """Forget a host whose PID 1 was killed by somebody else."""
        if name in self._hosts and os.waitpid(self._hosts[name].pid, os.WNOHANG)[0]:
            self._hosts.pop(name).control.close()

    def do_resize(self, host: str, size: str, inodes: int) -> None:
        """Change the limits of a host's disk."""
        kernel.mount("tmpfs", self._disk(host), "tmpfs", kernel.MS_REMOUNT, f"size={size},nr_inodes={inodes}")

    def do_wipe(self, host: str) -> None:
        """Empty the disk of a host that is off."""
        disk = self._disk(host)
        for path in disk.iterdir():
            shutil.rmtree(path)
        self._make_disk(disk)

    def end(self) -> None:
        """Kill the hosts, take the cable to the launching side away, and remove the rig's folder."""
        self._halt(*self._hosts)
        with contextlib.suppress(RuntimeError):
            _ip(["link del up0"])
        with contextlib.suppress(OSError):
            kernel.unmount(self._world)
        shutil.rmtree(self._plan.folder, ignore_errors=True)


def _ip(lines: list[str]) -> None:
    done = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"`ip` refused: {done.stderr.strip()}")


def _forget_standard_streams() -> None:
    """A host must not hold the pipes between owner and warden."""
    nothing = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.close(nothing)


def _say(answer: dict[str, Any]) -> None:
    os.write(1, json.dumps(answer).encode() + b"\n")


def main() -> None:
    """Make the world, then obey the owner until it says `end`, closes the pipe, or is gone."""
    folder = Path(sys.argv[1])
    os.umask(0o022)
    os.chdir("/")
    (folder / "warden").write_text(f"{os.getpid()} {birth(os.getpid())}\n")
    requests = sys.stdin
    plan = Plan.from_json(json.loads(requests.readline()))
    warden = Warden(plan)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        owner = os.pidfd_open(plan.owner)
        warden.make_world()
        _say({})
        while True:
            ready, _, _ = select.select([requests, owner], [], [])
            if owner in ready or not (line := requests.readline()):
                break
            request = json.loads(line)
            if request["do"] == "end":
                break
            _say(warden.answer(request))
    except (OSError, RuntimeError) as error:
        with contextlib.suppress(OSError):
            _say({"error": f"{type(error).__name__}: {error}"})
    finally:
        warden.end()


if __name__ == "__main__":
    main()
