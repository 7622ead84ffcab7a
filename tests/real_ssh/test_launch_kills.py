"""A controller that is killed with -9 at each stage of a launch: the next one goes on where it was and does nothing
twice, and `down` ends the run from wherever it stood."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from launcher.store.owner import Owner
from launcher.store.store import Store
from tests.desk import AMPLE_S, Desk
from tests.real_ssh.stages import STAGES, await_stage, left_on, outside
from tests.real_ssh.wheels import real_ray
from tests.rig import Rig
from tests.rig.witness import until

TASK = """
name: {name}
resources: {{accelerators: GB300:4}}
topology: {{slices: 1, nodes_per_slice: 2, racks: [{rack}]}}
stop_grace: 1
{workdir}
setup: echo done >> /tmp/setups; sleep 2
run: until [ -e /tmp/gate ]; do sleep 0.1; done
"""
CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"
IMEX = "nvidia-imex"
BARE = "bare.yaml"
WHILE_MADE_READY = tuple(stage for stage in STAGES if stage != "following")


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """Three racks of two trays, whose IMEX is for the launcher to start."""
    with Rig(3, 2, nvidia=True, python=sys.executable, name="kills") as made:
        for host in made.hosts.values():
            host.set_hardware(sudo="works", units={IMEX: "inactive"})
            host.run(["sh", "-c", f"mkdir -p {CHANNEL.rpartition('/')[0]} && touch {CHANNEL} && chmod 666 {CHANNEL}"])
        yield made


@pytest.fixture(scope="module")
def desk(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A desk with a second inventory, whose nodes have no Python that is named: an environment is made, from a wheel
    that leads to Ray."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / ".ssh").mkdir()
    (folder / "work").mkdir()
    (folder / "work" / "data").write_bytes(os.urandom(80_000_000))
    made = Desk(folder, managed(rig.inventory()), HOME=str(folder))
    (folder / BARE).write_text(managed(rig.inventory(python=None, wheels=str(real_ray(folder / "wheels")))))
    yield made
    made.run("down", "--all", "-y")


def managed(inventory: str) -> str:
    """The inventory, with IMEX for the launcher to start."""
    return inventory.replace("transport: ssh\n", "transport: ssh\nimex: manage\n")


def up(desk: Desk, name: str, rack: str, *, files: bool = False, bare: bool = False) -> None:
    """Launch a run that nobody follows: with files to be sent, on nodes without a Python that is named."""
    inventory = desk.folder / BARE if bare else desk.inventory
    workdir = f"workdir: {desk.folder / 'work'}" if files else ""
    task = desk.task(name, TASK.format(name=name, rack=rack, workdir=workdir))
    done = desk.run("up", str(task), "-y", "-d", "-i", str(inventory))
    assert done.returncode == 0, done.stderr


def living(desk: Desk, name: str, before: int | None) -> Owner:
    """The process that drives a run, as soon as it is another one than the one before."""
    found: list[Owner] = []

    def lives() -> bool:
        owner = Store(desk.home).find(name).owner
        found[:] = [owner] if owner is not None and owner.pid != before and owner.alive() else []
        return bool(found)

    until(lives, AMPLE_S)
    return found[0]


def kill(desk: Desk, name: str, before: int | None = None) -> int:
    """Kill the controller of a run, another one than the one before; return which."""
    owner = living(desk, name, before)
    os.kill(owner.pid, signal.SIGKILL)
    until(lambda: not owner.alive(), AMPLE_S)
    return owner.pid


def test_an_up_that_is_killed_before_its_run_is_accepted_has_begun_nothing(rig: Rig, desk: Desk) -> None:
    slow = rig["r01-n02"]
    slow.lose_name()  # one of the questions takes ten seconds
    try:
        for stage in ("connect", "preflight"):
            task = desk.task("early", TASK.format(name="early", rack="r01", workdir=""))
            process = desk.begin("up", str(task), "-y", "-i", str(desk.inventory))
            assert process.stderr
            while "inventory `" not in process.stderr.readline():
                pass
            if stage == "preflight":
                until(lambda: any("python" in one.argv[0] for one in slow.processes(user=rig.user)), AMPLE_S)
            process.kill()
            process.communicate(timeout=AMPLE_S)
    finally:
        slow.lose_name(on=False)
    assert json.loads(desk.run("status", "-o", "json").stdout) == []
    for host in rig.hosts.values():
        until(lambda host=host: not host.processes(user=rig.user), AMPLE_S)  # type: ignore[misc]


def test_a_launch_whose_controllers_are_killed_at_every_stage_ends_well_and_does_nothing_twice(
    rig: Rig, desk: Desk
) -> None:
    hosts = rig.racks()["r01"]
    for host in hosts:  # so that it is waited for
        host.set_hardware(imex_nodes={one.address: "UNAVAILABLE" for one in hosts})
    up(desk, "killed", "r01", files=True, bare=True)
    dead = None
    for stage in ("lease", "IMEX", *WHILE_MADE_READY[1:]):
        if stage == "IMEX":
            until(lambda: any(host.unit_calls(IMEX, "start") for host in hosts), AMPLE_S)
        else:
            await_stage(desk, "killed", stage)
        dead = kill(desk, "killed", dead)
        if stage == "IMEX":
            for host in hosts:
                host.set_hardware(imex_nodes={})
        watching = desk.begin("watch", "killed")
        living(desk, "killed", dead)
        if stage != WHILE_MADE_READY[-1]:
            watching.kill()
            watching.communicate()
    for host in hosts:
        host.write("/tmp/gate", "")
    _, err = watching.communicate(timeout=AMPLE_S)
    assert watching.returncode == 0, err
    assert desk.status("killed")["attempt"] == 1
    for host in hosts:
        assert host.read("/tmp/setups") == "done\n", "setup ran once"
        assert host.unit_calls(IMEX, "restart") == 0, "to start a unit that starts is nothing; to start it anew is not"
        assert left_on(host, desk.status("killed")["id"]) == []
        host.run(["rm", "/tmp/setups", "/tmp/gate"])


@pytest.fixture(scope="module")
def ends(rig: Rig, desk: Desk) -> dict[str, str]:
    """What was wrong after `down` of a run whose controller had been killed, by the stage where it stood."""
    racks = rig.racks()

    def each(rack: str, stages: tuple[str, ...]) -> dict[str, str]:
        return {stage: _killed_and_taken_down(rig, desk, rack, stage) for stage in stages}

    with ThreadPoolExecutor(len(racks)) as pool:
        found = pool.map(each, racks, (WHILE_MADE_READY[at :: len(racks)] for at in range(len(racks))))
        return {stage: wrong for part in found for stage, wrong in part.items()}


def _killed_and_taken_down(rig: Rig, desk: Desk, rack: str, stage: str) -> str:
    hosts, name = rig.racks()[rack], f"down{WHILE_MADE_READY.index(stage)}"
    if stage == "environment":
        for host in hosts:
            host.run(["rm", "-rf", f"/home/{rig.user}/.nvlaunch/env"])
    before = {host.name: host.written() for host in hosts}
    up(desk, name, rack, files=stage == "sync", bare=stage == "environment")
    await_stage(desk, name, stage)
    kill(desk, name)
    done = desk.run("down", name, "-y")
    if done.returncode:
        return done.stderr
    run = desk.status(name)["id"]
    wrong = [line for host in hosts for line in left_on(host, run)]
    for host in hosts:
        host.run(["rm", "-f", "/tmp/setups"])
        wrong += sorted(outside(host, run, before[host.name]))
    return "\n".join(wrong)


@pytest.mark.parametrize("stage", WHILE_MADE_READY)
def test_down_ends_a_launch_whose_controller_was_killed(ends: dict[str, str], stage: str) -> None:
    assert ends[stage] == ""
