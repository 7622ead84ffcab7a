"""Pictures of racks of hosts in this machine, each with a real sshd and real Ray: for the guide. It takes root."""

import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.docs.markdown import ROOT
from tests.docs.sessions import Session
from tests.docs.stage import Stage
from tests.rig import Rig

RAY = "/opt/ray"
AMPLE_S = 300.0


class RigStage(Stage):
    """Two racks of three hosts that look like trays of GB300, and a user who can log in to them."""

    def __init__(self, folder: Path, session: Session, files: Mapping[str, str]) -> None:
        super().__init__(folder, session, files)
        self.rig = Rig(2, 3, nvidia=True, python=sys.executable, name="guide")
        self.user = folder / "user"

    def begin(self) -> None:
        """Start the hosts; they have a Python with Ray where people have one."""
        self.rig.__enter__()
        (self.user / ".ssh").mkdir(parents=True, mode=0o700)
        (self.user / ".ssh" / "config").write_text(self.rig.ssh_config.read_text())
        for host in self.rig.hosts.values():
            host.run(["ln", "-s", str(Path(sys.executable).parents[1]), RAY])
        super().begin()

    def environment(self) -> Mapping[str, str]:
        """No agent and no home of whoever runs this."""
        outer = {name: value for name, value in super().environment().items() if name != "SSH_AUTH_SOCK"}
        return {**outer, "HOME": str(self.user), "NVLAUNCH_INVENTORY": f"{self.folder}/inventory.yaml"}

    def shown(self) -> Mapping[str, str]:
        """Addresses of the rig differ from one to the next."""
        return {**super().shown(), self.rig.plan.launcher_address.rpartition(".")[0]: "10.0.0"}

    def output(self, command: str) -> str:
        """What a line of a shell writes, with a user's configuration of SSH."""
        ours = f'nvlaunch() {{ {shlex.quote(sys.executable)} -m launcher.cli "$@"; }}'
        ssh = f'ssh() {{ command ssh -F {self.user}/.ssh/config "$@"; }}'
        done = subprocess.run(
            ["bash", "-c", f"{ours}; {ssh}; {command}"],
            env={**self.environment(), "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=AMPLE_S,
        )
        return done.stdout

    def close(self) -> None:
        """End what runs, and the hosts."""
        try:
            super().close()
        finally:
            self.rig.close()
