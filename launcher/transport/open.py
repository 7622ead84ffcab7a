"""The one place that chooses a transport."""

import getpass
import socket
from pathlib import Path

from launcher.core.model.inventory import HostKeyPolicy, Inventory
from launcher.ports import Checker, Nodes, Prober, Shell
from launcher.transport.agent.addresses import Addresses, leases, most_connections
from launcher.transport.checker import ShellChecker
from launcher.transport.local import LocalShell
from launcher.transport.nodes import ShellNodes
from launcher.transport.prober import ShellProber
from launcher.transport.ssh.shell import SshShell


def open_nodes(home: Path, fleet: Inventory, owner: str = "") -> Nodes:
    """Return the `Nodes` of an inventory.

    `owner` is who people see as the holder of a lease.
    """
    shell = open_shell(home, fleet)
    return ShellNodes(
        Addresses(home.absolute(), fleet, shell), shell, owner or f"{getpass.getuser()}@{socket.gethostname()}"
    )


def open_prober(home: Path, fleet: Inventory) -> Prober:
    """Return the `Prober` of an inventory."""
    shell = open_shell(home, fleet)
    if isinstance(shell, SshShell):
        return ShellProber(shell, leases(fleet), take_learnt=shell.take_learnt)
    return ShellProber(shell, shared=True)


def open_checker(home: Path, fleet: Inventory) -> Checker:
    """Return the `Checker` of an inventory."""
    local = fleet.capabilities.this_machine
    return ShellChecker(open_shell(home, fleet), () if local else leases(fleet), shared=local)


def open_shell(home: Path, fleet: Inventory) -> Shell:
    """Return the shell that runs commands on the machines of an inventory."""
    return LocalShell() if fleet.capabilities.this_machine else _ssh(home, fleet)


def _ssh(home: Path, fleet: Inventory) -> SshShell:
    kept = most_connections(fleet)
    return SshShell(home.absolute(), strict=fleet.host_keys is HostKeyPolicy.STRICT, kept=kept)
