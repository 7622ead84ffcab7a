"""A Podman with storage and settings of the tests' own."""

import os
import subprocess
from pathlib import Path

# crun needs unified control groups; the default limits need more rights than a container of CI may have.
_SETTINGS = """
[containers]
default_ulimits = []
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
_STORAGE = """
[storage]
driver = "vfs"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
"""


class Podman:
    """As `Docker`, without a daemon: there is nothing to kill."""

    process = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "containers.conf").write_text(_SETTINGS)
        (folder / "storage.conf").write_text(_STORAGE.format(folder=folder))
        self.env = {
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        }

    def start(self) -> None:
        """Nothing has to run."""

    def kill(self) -> None:
        """Nothing runs."""

    def client(self, *argv: str, check: bool = True) -> "subprocess.CompletedProcess[bytes]":
        """Run the client."""
        env = {**os.environ, **self.env}
        return subprocess.run(["podman", *argv], env=env, check=check, capture_output=True, timeout=120)

    def said(self, *argv: str) -> str:
        """Return what the client writes."""
        return self.client(*argv).stdout.decode().strip()

    def stop(self) -> None:
        """Remove all containers."""
        self.client("rm", "--all", "--force", check=False)
        subprocess.run(["umount", str(self.folder / "graph")], check=False, capture_output=True)
