"""`repair` on hosts of their own: the reset or reboot that a driver asks for, where root can be had, and where not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import Desk
from tests.rig import Host, Rig
from tests.rig.witness import until

RESETS, REBOOTS = "/var/lib/rig/smi/resets", "/var/lib/rig/reboots"


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """Two hosts with stand-ins of NVIDIA's tools."""
    with Rig(1, 2, nvidia=True, name="repair") as made:
        yield made


@pytest.fixture
def desk(rig: Rig, tmp_path: Path) -> Desk:
    (tmp_path / ".ssh").mkdir()
    return Desk(tmp_path, rig.inventory(), HOME=str(tmp_path))


@pytest.fixture
def host(rig: Rig) -> Iterator[Host]:
    """A host whose driver asks for something once a test says so."""
    one = next(iter(rig.hosts.values()))
    well = one.hardware
    yield one
    one.set_hardware(lambda _: well)
    one.run(["rm", "-f", RESETS, REBOOTS])


def asks_for(host: Host, action: str, **more: object) -> None:
    """The driver of one GPU asks for something."""
    host.set_hardware(lambda state: state.with_gpu(2, recovery_action=action), **more)


def done(host: Host, what: str) -> int:
    """How often that was done to a host."""
    return len(host.run(["cat", what], check=False).stdout.splitlines())


def drained(desk: Desk, host: Host) -> bool:
    table = desk.run("nodes", "-o", "json", "-i", str(desk.inventory))
    assert table.returncode == 0, table.stderr
    return f'"{host.name}"' in table.stdout and "repair: " in table.stdout


def test_gpus_are_reset_as_their_driver_asks_and_the_node_is_free_again(desk: Desk, host: Host) -> None:
    asks_for(host, "Reset")
    ended = desk.run("repair", host.name, "-y", "-i", str(desk.inventory))
    assert ended.returncode == 0, ended.stderr
    assert f"repaired `{host.name}`: its driver requests nothing more" in ended.stderr + ended.stdout
    assert done(host, RESETS) == 1
    assert not drained(desk, host)


def test_a_driver_that_asks_for_nothing_is_left_alone(desk: Desk, host: Host) -> None:
    ended = desk.run("repair", host.name, "-y", "-i", str(desk.inventory))
    assert ended.returncode == 0, ended.stderr
    assert "needs no repair" in ended.stderr + ended.stdout
    assert done(host, RESETS) == 0


def test_where_root_takes_a_password_the_command_is_printed_and_nothing_done(desk: Desk, host: Host) -> None:
    asks_for(host, "Reset", sudo="asks")
    ended = desk.run("repair", host.name, "-y", "-i", str(desk.inventory))
    assert ended.returncode == 4, ended.stderr
    bus = host.hardware.gpus[2].bus.removeprefix("0000").rpartition(".")[0].lower()
    assert f"ssh -t {host.address} sudo nvidia-smi --gpu-reset -i {bus}" in ended.stdout.lower()
    assert done(host, RESETS) == 0
    assert not drained(desk, host)


def test_nothing_is_reset_under_a_process_that_computes(desk: Desk, host: Host) -> None:
    asks_for(host, "Reset", apps=((1, "python", 1024),))
    ended = desk.run("repair", host.name, "-y", "-i", str(desk.inventory))
    assert ended.returncode == 6, ended.stderr
    assert "python (1)" in ended.stderr
    assert done(host, RESETS) == 0


def test_a_node_reboots_and_stays_drained_until_it_is_known_to_be_well(desk: Desk, host: Host) -> None:
    asks_for(host, "Reboot")
    ended = desk.run("repair", host.name, "-y", "-i", str(desk.inventory))
    assert ended.returncode == 0, ended.stderr
    assert f"next: `nvlaunch doctor {host.name}`, then `nvlaunch undrain {host.name}`" in ended.stderr + ended.stdout
    assert done(host, REBOOTS) == 1
    assert drained(desk, host)
    host.power_cut()
    host.boot()
    host.set_hardware(lambda state: state.with_gpus(recovery_action="None"))
    until(lambda: "needs no repair" in desk.run("repair", host.name, "-i", str(desk.inventory)).stderr)
    assert desk.run("undrain", host.name, "-i", str(desk.inventory)).returncode == 0
    assert not drained(desk, host)
