"""What this machine must have for a rig, and which range of addresses is free on it."""

import ipaddress
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.rig.errors import RigError
from tests.rig.plan import FIRST_RANGE, LAST_RANGE

_PACKAGES = {
    "openssh-server": ("sshd", "ssh-keygen"),
    "iproute2": ("ip",),
    "util-linux": ("nsenter", "setpriv"),
    "mount": ("mount", "umount"),
}
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_CAPABILITIES = (12, 21)  # CAP_NET_ADMIN, CAP_SYS_ADMIN
_PRIVATE = ("/tmp", "/run")  # each host has its own; an interpreter there is shown in it
_KERNELS = ("/var/run", "/dev", "/proc", "/sys")


def require() -> None:
    """Raise RigError, with what to do, unless this process may make a rig and the machine has the tools."""
    if sys.platform != "linux":
        raise RigError("the rig needs Linux: its hosts are namespaces")
    if os.geteuid() != 0:
        raise RigError("the rig needs root: it makes namespaces, mounts and interfaces; run the tests with `sudo`")
    effective = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff"))
    if not all(int(effective.split()[1], 16) >> bit & 1 for bit in _CAPABILITIES):
        raise RigError("the rig needs a root that may do everything: in a container, run that with `--privileged`")
    missing = [name for name, tools in _PACKAGES.items() if not all(shutil.which(tool, path=_PATH) for tool in tools)]
    if missing:
        raise RigError(f"the rig needs packages that are not here: run `apt-get install {' '.join(missing)}`")
    if not Path("/proc/self/ns/pid_for_children").exists():
        raise RigError("the rig needs a kernel with pid namespaces")


def claim_range() -> tuple[int, socket.socket]:
    """Return a range of addresses that no rig and no route of this machine uses; it is ours while the socket is open.

    The claim is a name in the kernel's abstract namespace, which goes with the last process that holds it.
    """
    used = list(_routes())
    for number in range(FIRST_RANGE, LAST_RANGE + 1):
        network = ipaddress.ip_network(f"10.{number}.0.0/16")
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0nvlaunch-rig-{number}")
        except OSError:
            claim.close()
            continue
        if not any(network.overlaps(other) for other in used):
            return number, claim
        claim.close()
    raise RigError(f"no range of addresses is free between 10.{FIRST_RANGE}.0.0 and 10.{LAST_RANGE}.255.255")


def _routes() -> Iterator[ipaddress.IPv4Network]:
    said = subprocess.run(
        ["ip", "-4", "-json", "route", "show", "table", "all"], capture_output=True, check=True
    ).stdout
    for route in json.loads(said or b"[]"):
        if route["dst"] != "default":
            yield ipaddress.IPv4Network(route["dst"], strict=False)


def exposed(python: str, hidden: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders that hosts need for this interpreter and would not see through an overlay of /.

    That is so for folders on a file system of their own, for those in home folders, which hosts do not share, and for
    those in `/tmp` and `/run`. Raises RigError where they lie in what the kernel makes.
    """
    said = subprocess.run(
        [python, "-I", "-c", "import sys; print(sys.prefix); print(sys.base_prefix)"], capture_output=True, text=True
    )
    if said.returncode != 0:
        raise RigError(f"`{python}` does not run here: {said.stderr.strip() or said.returncode}")
    prefixes = sorted({str(Path(line).resolve()) for line in said.stdout.split()})
    for prefix in (*prefixes, str(Path(python).absolute())):
        if any(_inside(prefix, one) for one in _KERNELS):
            raise RigError(
                f"`{python}` cannot be seen by hosts: `{prefix}` is in a folder that each host has for itself"
            )
    unseen = (*hidden, *_PRIVATE)
    needed = [prefix for prefix in prefixes if _is_mounted_apart(prefix) or any(_inside(prefix, one) for one in unseen)]
    return tuple(prefix for prefix in needed if not any(_inside(prefix, other) and prefix != other for other in needed))


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _is_mounted_apart(path: str) -> bool:
    return Path(path).stat().st_dev != Path("/").stat().st_dev
