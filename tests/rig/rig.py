"""Racks of real hosts on this one machine, for as long as a `with` block lasts."""

import contextlib
import itertools
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.rig import kernel, machine
from tests.rig.clean import BASE, end_warden, folder_name, kill
from tests.rig.errors import RigError
from tests.rig.host import Host
from tests.rig.identity import birth
from tests.rig.layer import make_common, make_key, put, sshd_config
from tests.rig.plan import BASTION, HEAD, MAX_NODES, MAX_RACKS, Plan, Sizes, launcher_lines, slots

_ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 90  # seconds for one answer of the warden
_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
LAUNCHER = "launcher"  # the launching side, as an end of a cut


class Rig:
    """`racks` x `nodes` hosts, `r01-n01` and so on, each reachable by SSH as any user with the one key of the rig.

    `user` is whom the inventory names. `bastion` puts a host in front, through which alone the launching side reaches
    the others; `head` adds one outside the racks for Ray's head. `python` is an interpreter that nodes are to see, with
    its environment. `nvidia` gives each host stand-ins of NVIDIA's tools; without, it is a CPU rack. `sshd` are options
    of every node's sshd.
    """

    def __init__(
        self,
        racks: int = 2,
        nodes: int = 2,
        *,
        user: str = "ubuntu",
        bastion: bool = False,
        head: bool = False,
        name: str = "rig",
        python: str | None = None,
        nvidia: bool = False,
        gpus: int = 4,
        accelerator: str = "GB300",
        sizes: Sizes | None = None,
        sshd: Mapping[str, str] | None = None,
    ) -> None:
        if not (1 <= racks <= MAX_RACKS and 1 <= nodes <= MAX_NODES):
            raise RigError(f"a rig has 1 to {MAX_RACKS} racks of 1 to {MAX_NODES} nodes")
        if not re.fullmatch(r"[a-z][a-z0-9]*", name):
            raise RigError(f"`{name}` cannot name a rig: it takes lower-case letters and digits")
        self.user = user
        self.python = python
        self.driver = nvidia
        self.gpus = gpus
        self.accelerator = accelerator
        self.name = name
        self.hosts: dict[str, Host] = {}
        self._shape = (racks, nodes)
        self._outside = [name for name, wanted in ((BASTION, bastion), (HEAD, head)) if wanted]
        self._sizes = sizes or Sizes()
        self._sshd = dict(sshd or {})
        self._cuts: set[tuple[str, str]] = set()
        self._closing = contextlib.ExitStack()

    # life

    def __enter__(self) -> "Rig":  # noqa: PYI034 `Self` is not in every standard library
        machine.require()
        kill()
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _open(self) -> None:
        number, held = machine.claim_range()
        with held:
            self.plan = self._planned(number)
            self.folder = Path(self.plan.folder)
            while not self.folder.exists():  # another rig that closes may remove the empty folder above just now
                with contextlib.suppress(FileNotFoundError):
                    self.folder.mkdir(parents=True, mode=0o700)
            self._closing.callback(self._remove_folder)
            self.key = self.folder / "key"
            authorized = make_key(self.key, f"nvlaunch {self.folder.name}")
            self._start_warden(held)
        self.ask("", plan=self.plan.to_json())
        self._furnish(authorized)
        pids = self.ask("boot", hosts={host.name: host.next_boot() for host in self._all.values()})["pids"]
        for host in self._all.values():
            host.booted(pids[host.name])
        self.note_power()
        self._check_python()

    def _furnish(self, authorized: str) -> None:
        """Give the launching side its address, and the hosts their disks."""
        kernel.silence_ipv6(self.plan.uplink)
        _ip(launcher_lines(self.plan))
        common = self._world / "common"
        make_common(common, self.plan, authorized, self.driver)
        put(common / "etc/ssh/sshd_config", sshd_config(self._sshd))
        made = [Host(self, slot, self.gpus, self.accelerator) for slot in self.plan.slots.values()]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(Host.prepare, made))
        for name in self._outside:
            put(self.disk(name) / "up/etc/ssh/sshd_config", sshd_config({}))
        self._all = {host.name: host for host in made}
        self.hosts = {host.name: host for host in made if host.rack}
        self.note_keys()

    def _planned(self, number: int) -> Plan:
        owner = os.getpid()
        folder = BASE / folder_name(self.name, number, owner, birth(owner) or 0)
        plan = Plan(str(folder), owner, number, slots(*self._shape, number, self._outside), self._sizes)
        shown = machine.exposed(self.python, plan.hidden) if self.python else ()
        return Plan(plan.folder, owner, number, plan.slots, plan.sizes, shown, plan.hidden)

    def _start_warden(self, held: socket.socket) -> None:
        with (self.folder / "warden.log").open("wb") as log:
            self._warden = subprocess.Popen(
                [sys.executable, "-m", "tests.rig.warden", str(self.folder)],
                cwd=_ROOT, env=_ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                pass_fds=[held.fileno()], start_new_session=True,
            )  # fmt: skip
        self._closing.callback(self._end_warden)

    def _check_python(self) -> None:
        """Raise RigError unless the user of the hosts can run the interpreter there."""
        if self.python is None:
            return
        first = next(iter(self.hosts.values()))
        done = first.run([self.python, "-c", "import encodings"], user=self.user, check=False)
        if done.returncode != 0:
            why = done.stderr.strip() or f"exit status {done.returncode}"
            raise RigError(f"`{self.python}` cannot be run by `{self.user}` on hosts: {why}")

    def close(self) -> None:
        """Take everything down; a second call does nothing."""
        self._closing.close()

    def _end_warden(self) -> None:
        with contextlib.suppress(OSError):
            self._send({"do": "end"})
        try:
            self._warden.wait(30)
        except subprocess.TimeoutExpired:
            self._warden.kill()
            self._warden.wait()
        for pipe in (self._warden.stdin, self._warden.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        until = time.monotonic() + 10
        while Path("/sys/class/net", self.plan.uplink).exists() and time.monotonic() < until:
            time.sleep(0.01)

    def _remove_folder(self) -> None:
        end_warden(self.folder, signal.SIGKILL, 5)
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            BASE.rmdir()

    # the warden

    def ask(self, do: str, **what: Any) -> dict[str, Any]:
        """Have the warden do something; raises RigError with its reason where it cannot."""
        self._send({"do": do, **what} if do else what["plan"])
        assert self._warden.stdout
        ready, _, _ = select.select([self._warden.stdout], [], [], _PATIENCE)
        line = self._warden.stdout.readline() if ready else b""
        if not line:
            log = self.folder / "warden.log"
            tail = log.read_text()[-2000:].strip() if log.exists() else ""
            raise RigError(f"the rig's warden {'is gone' if ready else 'does not answer'}: {tail}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer and do != "tell":
            raise RigError(answer["error"])
        return answer

    def _send(self, request: Mapping[str, Any]) -> None:
        assert self._warden.stdin
        self._warden.stdin.write(json.dumps(request).encode() + b"\n")
        self._warden.stdin.flush()

    @property
    def _world(self) -> Path:
        return Path(f"/proc/{self._warden.pid}/root{self.plan.folder}/world")

    def disk(self, name: str) -> Path:
        """Return where this machine sees a host's disk."""
        return self._world / "hosts" / name / "disk"

    # what tests use

    def __getitem__(self, name: str) -> Host:
        """Return a host by name."""
        return self._all[name]

    @property
    def bastion(self) -> Host:
        """The host in front."""
        return self._all[BASTION]

    @property
    def head(self) -> Host:
        """The host outside the racks that is meant for Ray's head."""
        return self._all[HEAD]

    @property
    def shared(self) -> Path:
        """Where this machine sees /shared, the folder that all hosts have in common."""
        return self._world / "shared"

    @property
    def fence_command(self) -> str:
        """A command for an inventory that cuts the power of `{node}`, as through its BMC."""
        return f"env PYTHONPATH={_ROOT} {sys.executable} -m tests.rig.bmc {self.folder} {{node}}"

    @property
    def power_query(self) -> str:
        """A command for an inventory that succeeds only if `{node}` is off."""
        return f"{self.fence_command} status"

    def note_power(self) -> None:
        """Write down PID 1 and cable of each host that is on, for its BMC."""
        lines = [f"{host.name} {host.pid} {birth(host.pid)} {host.cable}\n" for host in self._all.values() if host.on]
        put(self.folder / "power", "".join(lines))

    def racks(self) -> dict[str, list[Host]]:
        """Return the hosts of each rack, in tray order."""
        return {rack: list(hosts) for rack, hosts in itertools.groupby(self.hosts.values(), lambda host: host.rack)}

    def cut(self, one: str, other: str, on: bool = True) -> None:
        """Drop packets between two hosts (or a host and LAUNCHER) in both directions, or let them pass again."""
        ends = [self.plan.launcher_address if name == LAUNCHER else self._all[name].address for name in (one, other)]
        verb = "add" if on else "del"
        ways = (ends, ends[::-1])
        self.ask("ip", lines=[f"rule {verb} pref 20 from {src} to {dst} blackhole" for src, dst in ways])

    def note_keys(self) -> None:
        """Write known_hosts and ssh_config for OpenSSH on the launching side."""
        known = "".join(f"{host.name},{host.address} {host.host_key}\n" for host in self._all.values())
        put(self.folder / "known_hosts", known)
        put(self.ssh_config, "".join(self._ssh_entry(host) for host in self._all.values()))

    @property
    def ssh_config(self) -> Path:
        """A configuration for `ssh -F` that names every host and pins its key."""
        return self.folder / "ssh_config"

    def _ssh_entry(self, host: Host) -> str:
        through = f"  ProxyJump {BASTION}\n" if BASTION in self._all and host.name != BASTION else ""
        return (
            f"Host {host.name} {host.address}\n  HostName {host.address}\n  User {self.user}\n"
            f"  IdentityFile {self.key}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.folder}/known_hosts\n  StrictHostKeyChecking yes\n"
            f"  BatchMode yes\n  LogLevel ERROR\n{through}"
        )

    def ssh(
        self, host: str, *command: str, options: Sequence[str] = (), timeout: float = 30
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command by OpenSSH and answer its end."""
        argv = ["ssh", "-F", str(self.ssh_config), *options, host, "--", *command]
        return subprocess.run(argv, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)

    def inventory(self, **defaults: Any) -> str:
        """Return the inventory of the rig as YAML, with `defaults` added to those of its own (None: left out)."""
        own: dict[str, Any] = {
            "user": self.user,
            "port": 22,
            "identity_file": str(self.key),
            "proxy_jump": f"{self.user}@{self.bastion.address}" if BASTION in self._all else None,
            "gpus": self.gpus,
            "accelerator": self.accelerator,
            "python": self.python,
            "gpu_driver": "nvidia" if self.driver else "none",
        }
        said = {key: value for key, value in {**own, **defaults}.items() if value is not None}
        lines = [f"name: {self.name}", "transport: ssh", f"defaults: {json.dumps(said)}"]
        if HEAD in self._all:
            lines.append(f"head: {json.dumps({'address': self.head.address, 'host_key': self.head.fingerprint})}")
        lines.append("racks:")
        for rack, hosts in self.racks().items():
            tray = hosts[0].hardware
            lines += [f"  {rack}:", *([f"    domain: {tray.cluster_uuid}.{tray.clique}"] if self.driver else [])]
            lines.append("    nodes:")
            lines += [f"      {host.name}: {json.dumps(_entry(host))}" for host in hosts]
        return "\n".join(lines) + "\n"


def _entry(host: Host) -> dict[str, Any]:
    return {"address": host.address, "tray": host.tray, "host_key": host.fingerprint}


def _ip(lines: list[str]) -> None:
    done = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, capture_output=True)
    if done.returncode != 0:
        raise RigError(f"`ip` refused: {done.stderr.strip()}")
