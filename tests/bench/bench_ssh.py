"""Our shell against plain `ssh`, 64 at a time, on 128 hosts of a rig in one run: `python tests/bench/bench_ssh.py`.

Needs root, as the rig does. Ours is a first connection to each host with all that belongs to it (OpenSSH asked for the
configuration, host key learnt, login) and one command; then one more over the connections that are kept.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from launcher.core.model.inventory import Access
from launcher.transport.ssh.shell import SshShell
from tests.rig import Host, Rig

RACKS, TRAYS = 8, 16
PLAIN_AT_ONCE = 64
LIMIT_S = 120.0


def main() -> None:
    """Print milliseconds of CPU a node and seconds of wall time."""
    with (
        Rig(RACKS, TRAYS, name="sshbench", bastion="--bastion" in sys.argv) as rig,
        tempfile.TemporaryDirectory() as home,
    ):
        os.environ["HOME"] = home
        os.environ.pop("SSH_AUTH_SOCK", None)
        jump = f"{rig.user}@{rig.bastion.address}" if "--bastion" in sys.argv else None
        shell = SshShell(Path(home, "nvlaunch"))

        def ours(host: Host) -> bool:
            at = Access(address=host.address, user=rig.user, identity_file=str(rig.key), proxy_jump=jump)
            return shell.run(at, ["true"], timeout=LIMIT_S).status == 0

        def plain(host: Host) -> bool:
            argv = ["ssh", "-F", str(rig.ssh_config), host.name, "true"]
            return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0

        hosts = list(rig.hosts.values())
        told("ours, connect and one command", hosts, ours, RACKS * TRAYS)
        told("ours, one more command", hosts, ours, RACKS * TRAYS)
        shell.close()
        told("plain ssh, 64 at a time", hosts, plain, PLAIN_AT_ONCE)


def told(name: str, hosts: list[Host], ask: Callable[[Host], bool], at_once: int) -> None:
    """Ask every host and print what it took."""
    before, begun = os.times(), time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        good = list(pool.map(ask, hosts)).count(True)
    after, wall = os.times(), time.monotonic() - begun
    own = after.user + after.system - before.user - before.system
    children = after.children_user + after.children_system - before.children_user - before.children_system
    cpu = 1000 / len(hosts)
    print(
        f"{name:32}{good:4}/{len(hosts)} {wall:6.2f} s  {own * cpu:5.1f} + {children * cpu:4.1f} ms CPU a node",
        flush=True,
    )


if __name__ == "__main__":
    main()
