"""Pictures of racks of hosts in this machine, each with a real sshd and real Ray: for the guide. It takes root."""

import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.docs.markdown import ROOT
from tests.docs.sessions import Session
from tests.docs.stage import Stage
from tests.rig import Host, Rig

AMPLE_S = 300.0
# As an operator hands over a node: a Python with Ray, a user whose processes outlive a login, IMEX over the rack.
READY = """set -e
ln -s {python} /opt/ray
mkdir -p /var/lib/systemd/linger /etc/nvidia-imex /dev/nvidia-caps-imex-channels
touch /var/lib/systemd/linger/ubuntu
printf '%s\\n' {names} > /etc/nvidia-imex/nodes_config.cfg
touch /dev/nvidia-caps-imex-channels/channel0 && chmod 666 /dev/nvidia-caps-imex-channels/channel0
"""

TROUBLES: Mapping[str, Callable[[Host], None]] = {
    "lost": lambda host: host.set_hardware(lambda tray: tray.with_gpu(2, lost=True)),
    "reset": lambda host: host.set_hardware(lambda tray: tray.with_gpu(1, recovery_action="Reset")),
    "idle": lambda host: host.set_hardware(units={"nvidia-imex": "inactive"}),
    "off": lambda host: host.power_cut(),
}


def _names(rack: Sequence[Host]) -> str:
    return " ".join(host.name for host in rack)


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
        for rack in self.rig.racks().values():
            for host in rack:
                host.run(["sh", "-c", READY.format(python=Path(sys.executable).parents[1], names=_names(rack))])
                host.set_hardware(units={"nvidia-imex": "active"}, kernel_log=((1.0, "Linux version 6.8.0"),))
        self._prepare()
        for name, trouble in self.session.troubles:
            TROUBLES[trouble](self.rig[name])

    def _prepare(self) -> None:
        """Run the commands that are not shown, while all is well."""
        for command in self.session.before:
            self.lines(command)

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
