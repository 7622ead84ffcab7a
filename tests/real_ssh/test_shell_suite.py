"""The suite of the `Shell` port, on this machine and over SSH."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.core.model.inventory import Access
from launcher.transport.local import LocalShell
from launcher.transport.ssh.shell import SshShell
from tests.contracts.shell_suite import Machine, ShellSuite
from tests.real_ssh.conftest import access
from tests.rig import Rig

COUNT = itertools.count()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshShell]:
    """One shell for all, so that its one connection goes through everything."""
    shell = SshShell(tmp_path_factory.mktemp("home"))
    yield shell
    shell.close()


class TestLocalShell(ShellSuite):
    @pytest.fixture
    def machine(self, tmp_path: Path) -> Machine:
        (tmp_path / "put").mkdir(mode=0o700)

        def alive(word: str) -> list[str]:
            lines = (entry / "cmdline" for entry in Path("/proc").glob("[0-9]*"))
            return [line for path in lines if (line := _read(path)).startswith(f"sleep\0{word}")]

        return Machine(LocalShell(), Access(address="localhost"), str(tmp_path / "put"), alive)


class TestSshShell(ShellSuite):
    @pytest.fixture
    def machine(self, rig: Rig, kept: SshShell, user: Path) -> Machine:
        host = rig["r01-n01"]

        def alive(word: str) -> list[str]:
            return [" ".join(one.argv) for one in host.processes("sleep") if one.argv[-1].startswith(word)]

        return Machine(kept, access(rig, host), f"put/{next(COUNT)}", alive)

    def test_it_all_went_over_one_connection(self, rig: Rig, machine: Machine) -> None:
        machine.run("true")
        mine = [one for one in rig["r01-n01"].processes() if one.argv[0].startswith(f"sshd: {rig.user}@")]
        assert len(mine) == 1


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
