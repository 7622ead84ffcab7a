"""Our last SSH session closes, and logind ends what it may: with a lingering user the run goes on, without one it was
said before."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import Desk
from tests.rig import Host, Rig
from tests.rig.witness import until

TASK = """
name: {name}
resources: {{accelerators: GB300:4}}
topology: {{slices: 1, nodes_per_slice: 2}}
stop_grace: 1
run: until [ -e /tmp/gate ]; do sleep 0.1; done
"""
WARNING = "logout: a run ends with the last login session: `KillUserProcesses` kills its processes"


@pytest.fixture
def rig() -> Iterator[Rig]:
    """Two hosts on which logind kills what is left of a session."""
    with Rig(1, 2, python=sys.executable, name="session") as made:
        for host in made.hosts.values():
            host.logind(kill_user_processes=True)
        yield made


@pytest.fixture
def desk(rig: Rig, tmp_path: Path) -> Iterator[Desk]:
    (tmp_path / ".ssh").mkdir()
    made = Desk(tmp_path, rig.inventory(), HOME=str(tmp_path))
    yield made
    made.run("down", "--all", "-y")


def running(desk: Desk, name: str) -> tuple[str, str]:
    """Start a run; return its id and what was said of it."""
    task = desk.task(name, TASK.format(name=name))
    up = desk.run("up", str(task), "-y", "-d", "-i", str(desk.inventory))
    assert up.returncode == 0, up.stderr
    seen = desk.until(name, lambda seen: seen["state"] in ("running", "failed"))
    assert seen["state"] == "running", desk.run("events", name).stdout
    return seen["id"], up.stderr


def lives(host: Host, run: str) -> set[int]:
    """What lives of a run on a host, but for whoever looks, and what ranks wait with."""
    return {
        one.pid for one in host.processes(run) if one.state != "Z" and "-c" not in one.argv and one.argv[0] != "sleep"
    }


def settled(host: Host, run: str) -> set[int]:
    """What lives of a run on a host, once it has been the same for two seconds: what its start needed has ended."""
    last, since = lives(host, run), time.monotonic()

    def lasts() -> bool:
        nonlocal last, since
        if (now := lives(host, run)) != last:
            last, since = now, time.monotonic()
        return time.monotonic() - since > 2

    until(lasts)
    return last


def test_with_a_lingering_user_the_run_goes_on(rig: Rig, desk: Desk) -> None:
    for host in rig.hosts.values():
        host.run(["loginctl", "enable-linger", rig.user])
        host.run(["sh", "-c", 'd=/run/user/$(id -u "$1"); mkdir -p $d && chown "$1" $d', "sh", rig.user])
    run, said = running(desk, "lasting")
    assert "warning" not in said
    before = {host.name: settled(host, run) for host in rig.hosts.values()}
    for host in rig.hosts.values():
        host.last_logout(rig.user)
    for host in rig.hosts.values():
        assert before[host.name] <= lives(host, run), "killed at the logout"
        host.write("/tmp/gate", "")
    assert desk.run("watch", "lasting").returncode == 0
    assert desk.status("lasting")["attempt"] == 1


def test_without_it_is_said_before_and_down_converges_after(rig: Rig, desk: Desk) -> None:
    run, said = running(desk, "mortal")
    assert f"r01-n[01-02]: {WARNING}" in said
    assert "`sudo loginctl enable-linger ubuntu`" in said
    before = {host.name: lives(host, run) for host in rig.hosts.values()}
    for host in rig.hosts.values():
        host.last_logout(rig.user)
        until(lambda host=host: not before[host.name] & lives(host, run))
    assert desk.run("down", "mortal", "-y").returncode == 0
    until(lambda: not any(lives(host, run) for host in rig.hosts.values()))
