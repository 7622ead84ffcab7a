"""128 nodes claimed, prepared and joined, with a stand-in for `ray start` that sleeps 3 s: ours against plain `ssh`.

`python tests/bench/bench_launch.py [--bastion] [RACKS TRAYS]`; needs root and sshd, as the rig does. Both have the same
done in the same order. Ours looks at all nodes first, as a controller does, and keeps those connections; the other
calls `ssh` for each thing, 64 at a time.
"""

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from launcher.config.inventory.read import read_inventory
from launcher.core.model.actions import Acquire, Join, Prepare, Reason, Release, Unit, Why
from launcher.core.model.inventory import Access
from launcher.core.model.receipt import Result
from launcher.core.model.run import Run
from launcher.core.model.task import Group, TopologyRule
from launcher.drive.waves import AT_ONCE
from launcher.ports import Completed
from launcher.setup.ray import environment
from launcher.transport.agent.addresses import Addresses
from launcher.transport.nodes import ShellNodes
from launcher.transport.ssh.operation import Operation
from launcher.transport.ssh.shell import SshShell
from tests.real import local
from tests.rig import Rig
from tests.rig.errors import RigError
from tests.rig.machine import require

START_S = 3.0
PATIENCE_S = 900.0
REASON = Reason(why=Why.START, message="measured")
SITE = "/shared/standin"
TIMES = "/shared/times"
RAY = """
import os, socket, sys, time
def main():
    if "--head" in sys.argv:
        port = next(word.removeprefix("--port=") for word in sys.argv if word.startswith("--port="))
        listening = socket.create_server(("", int(port)), backlog=4096)
        time.sleep(86400)
    own = f"{times}/{{os.environ['NVLAUNCH_MARK'].split(':')[0]}}/{{socket.gethostname()}}"
    open(own + ".begun", "w").write(repr(time.time()))
    time.sleep({sleep})
    open(own + ".ended", "w").write(repr(time.time()))
    time.sleep(86400)
"""


GCS = """
class Node:
    ALIVE = state = 0
    is_head_node = True
    labels: dict = {}
class GcsClient:
    def __init__(self, address):
        pass
    def get_all_node_info(self, timeout):
        return {0: Node()}
"""


class PlainSsh(SshShell):
    """The same commands by a process of `ssh` each."""

    config = ""

    def _run(self, at: Access, argv: Sequence[str], parts: Sequence[Any], op: Operation, take: Any = None) -> Completed:
        command = ["ssh", "-F", self.config, at.address, "--", shlex.join(argv)]
        ended = subprocess.run(command, input=b"".join(map(bytes, parts)), capture_output=True)
        return Completed(status=ended.returncode, stdout=ended.stdout, stderr=ended.stderr)


def stand_in(shared: Path) -> str:
    """Put a Python below the folder of all hosts whose Ray does nothing for a while; return its path on hosts."""
    base, number = Path(sys.base_prefix).resolve(), f"python{sys.version_info[0]}.{sys.version_info[1]}"
    root = shared / "standin"
    packages = root / "lib" / number / "site-packages"
    (packages / "ray" / "scripts").mkdir(parents=True)
    (packages / "ray-2.60.0.dist-info").mkdir()
    (packages / "ray-2.60.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: ray\nVersion: 2.60.0\n")
    (packages / "ray" / "__init__.py").write_text("")
    (packages / "ray" / "_raylet.py").write_text(GCS)
    (packages / "ray" / "exceptions.py").write_text("class RayError(Exception):\n    pass\n")
    (packages / "ray" / "scripts" / "__init__.py").write_text("")
    (packages / "ray" / "scripts" / "scripts.py").write_text(RAY.format(times=TIMES, sleep=START_S))
    (root / "bin").mkdir()
    (root / "bin" / "python").symlink_to(base / "bin" / number)
    (root / "pyvenv.cfg").write_text(f"home = {base / 'bin'}\ninclude-system-site-packages = false\n")
    return f"{SITE}/bin/python"


class Side:
    """One way to the nodes, and a run on it."""

    def __init__(self, rig: Rig, home: Path, shell: SshShell, run: Run, at_once: int) -> None:
        self.run = run
        self.nodes = ShellNodes(Addresses(home, run.fleet, shell), shell, "bench@here")
        self.slots = local.slots(run)
        self.times = rig.shared / "times" / run.id
        self.at_once = at_once
        self.times.mkdir(parents=True)
        self.times.chmod(0o777)

    def launch(self) -> tuple[float, int]:
        """Return how long it takes until each start has ended (s), and how many of them ran at once."""
        begun = time.monotonic()
        if not isinstance(self.nodes._shell, PlainSsh):
            self.nodes.look(self.run)
            print(f"    {'look':10}{time.monotonic() - begun:6.2f} s", flush=True)
        with ThreadPoolExecutor(self.at_once) as pool:
            self._start_head()
            for stage in (self._acquire, self._prepare, self._join):
                list(pool.map(stage, self.slots))
                print(f"    {stage.__name__[1:]:10}{time.monotonic() - begun:6.2f} s", flush=True)
        while len(list(self.times.glob("*.ended"))) < len(self.slots):
            assert time.monotonic() - begun < PATIENCE_S, "not all starts have ended"
            time.sleep(0.02)
        return time.monotonic() - begun, self._most_at_once()

    def _start_head(self) -> None:
        head = self.nodes._addresses.head(self.run)
        self._check(self.nodes._provision.ensure_agent(self.run, head))
        argv = ("start", "--head", f"--port={self.nodes._heads.ports(head).gcs}")
        told = head.ask(
            {"op": "ray", "generation": 0, "argv": argv, "env": environment(head=True, tls=False)}, timeout=30
        )
        assert told["ok"], told

    def _most_at_once(self) -> int:
        marks = [(float(file.read_text()), 1) for file in self.times.glob("*.begun")]
        marks += [(float(file.read_text()), -1) for file in self.times.glob("*.ended")]
        most = now = 0
        for _, step in sorted(marks):
            now += step
            most = max(most, now)
        return most

    def _acquire(self, slot: Any) -> None:
        self._check(self.nodes.perform(self.run, Acquire(reason=REASON, node=slot.node)))

    def _prepare(self, slot: Any) -> None:
        self._check(self.nodes.perform(self.run, Prepare(reason=REASON, node=slot.node, member=slot.member)))

    def _join(self, slot: Any) -> None:
        self._check(self.nodes.perform(self.run, Join(reason=REASON, slot=slot)))

    @staticmethod
    def _check(answer: Any) -> None:
        assert answer.result in (Result.DONE, Result.KILLED), answer

    def down(self) -> None:
        """Take the run down."""
        units = [Release(reason=REASON, node=slot.node) for slot in self.slots]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda action: self.nodes.perform(self.run, action), units))
        self.nodes.perform(self.run, Release(reason=REASON, node=self.run.head, unit=Unit.HEAD))
        self.nodes.close()


def measured(name: str, act: Callable[[], tuple[float, int]], nodes: int) -> float:
    """Print what a launch took; return its wall time (s)."""
    before = os.times()
    wall, most = act()
    after = os.times()
    own = (after.user + after.system - before.user - before.system) * 1000 / nodes
    children = (
        (after.children_user + after.children_system - before.children_user - before.children_system) * 1000 / nodes
    )
    print(
        f"{name:24}{wall:7.2f} s  {most:4} of {nodes} starts at once  {own:5.1f} + {children:5.1f} ms CPU a node",
        flush=True,
    )
    return wall


def main() -> None:
    """Print both sides and their ratio."""
    try:
        require()
    except RigError as error:
        print(f"no launch on many hosts is measured: {error}")
        return
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    racks, trays = numbers or [8, 16]
    bastion = "--bastion" in sys.argv
    with (
        Rig(racks, trays, name="launchbench", python=sys.executable, bastion=bastion) as rig,
        tempfile.TemporaryDirectory() as folder,
    ):
        os.environ["HOME"] = folder
        os.environ.pop("SSH_AUTH_SOCK", None)
        inventory = Path(folder, "inventory.yaml")
        inventory.write_text(rig.inventory(python=stand_in(rig.shared)))
        fleet = read_inventory(inventory)
        group = Group(name="main", topology=TopologyRule(), run="true")
        wall = {}
        for name, kind, at_once in (("ours", SshShell, AT_ONCE), ("plain ssh, 64 at once", PlainSsh, 64)):
            if bastion and kind is PlainSsh:
                continue
            home = Path(folder, kind.__name__)
            home.mkdir()
            shell = kind(home)
            if isinstance(shell, PlainSsh):
                shell.config = str(by_address(rig, Path(folder, "ssh_config")))
            side = Side(rig, home, shell, local.place(fleet, f"bench-{kind.__name__.lower()}", group), at_once)
            wall[kind] = measured(name, side.launch, racks * trays)
            side.down()
        if not bastion:
            print(f"ours / plain ssh: {wall[SshShell] / wall[PlainSsh]:.2f}")


def by_address(rig: Rig, path: Path) -> Path:
    """Return a configuration of `ssh` in which hosts are called by their addresses."""
    known = Path(str(path) + ".known")
    path.write_text(
        f"Host *\n  User {rig.user}\n  IdentityFile {rig.key}\n  IdentitiesOnly yes\n  BatchMode yes\n"
        f"  UserKnownHostsFile {known}\n  StrictHostKeyChecking accept-new\n  LogLevel ERROR\n"
    )
    return path


if __name__ == "__main__":
    main()
