"""Faults of hosts, as whoever types `up` and `down` meets them: all at once, for each has a host of its own."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.core.model.nodeset import expand
from launcher.setup.ports import FIRST
from tests.desk import AMPLE_S, Desk
from tests.real_ssh.stages import left_on
from tests.rig import Host, Rig
from tests.rig.layer import make_key

TASK = """
name: {name}
resources: {{accelerators: GB300:4}}
topology: {{slices: 1, nodes_per_slice: {nodes}}}
stop_grace: 1
setup: |
  {setup}
run: "true"
"""
RAYLET = "/usr/local/bin/raylet"
LEFT = {"NVLAUNCH_MARK": "old-run:r01-n09:0:main-1:1"}
DEAF = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 3600 & wait' &) ; sleep 3600 & wait"


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """One rack of thirteen hosts: two stay well."""
    with Rig(1, 13, python=sys.executable, name="upfaults") as made:
        yield made


@pytest.fixture(scope="module")
def desk(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A desk whose inventory pins no keys: they are learnt, and then have to stay."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / ".ssh").mkdir()
    inventory = re.sub(r', "host_key": "[^"]*"', "", rig.inventory())
    made = Desk(folder, inventory, HOME=str(folder))
    yield made
    made.run("down", "--all", "-y")


def up(desk: Desk, name: str, nodes: int, *more: str, setup: str = "true") -> tuple[int, str]:
    """Launch a task; return exit code and what was said."""
    task = desk.task(name, TASK.format(name=name, nodes=nodes, setup=setup))
    done = desk.run("up", str(task), "-y", "-i", str(desk.inventory), *more)
    return done.returncode, done.stderr


def rekey(host: Host) -> None:
    host.rekey()
    host.end_ssh_sessions()


def test_hosts_that_take_few_logins_and_a_port_that_is_taken_hold_up_no_launch(rig: Rig, desk: Desk) -> None:
    first, second, third = list(rig.hosts.values())[:3]
    first.sshd_options(MaxStartups="2:50:4")
    second.sshd_options(MaxSessions="2")
    third.take_port(FIRST)
    code, said = up(desk, "stingy", 3)
    assert code == 0, said
    for host in (first, second):
        host.sshd_options()
    third.free_port(FIRST)
    for host in (first, second, third):
        assert left_on(host, desk.status("stingy")["id"]) == []


def test_down_waits_for_hosts_that_are_gone_and_ends_on_those_that_are_merely_broken(rig: Rig, desk: Desk) -> None:
    assert up(desk, "struck", 6, "-d", setup="sleep 600")[0] == 0
    run = desk.until("struck", lambda seen: "6 nodes in setup" in str(seen["status_message"]))["id"]
    dead, dropped, silent, changed, full, locked = list(rig.hosts.values())[:6]
    home = f"/home/{rig.user}"
    dead.power_cut()
    dropped.drop(True)
    silent.tarpit(True)
    silent.end_ssh_sessions()
    rekey(changed)
    full.fill_disk(home)
    locked.read_only(home, True)
    ending = desk.begin("down", "struck", "-y")
    gone = "on request; unreachable: head,r01-n[01-04]"
    desk.until(
        "struck",
        lambda seen: seen["state"] == "release-pending" and str(seen["status_message"]).startswith(gone),
    )
    assert left_on(full, run) == left_on(locked, run) == []
    dead.boot()
    dropped.drop(False)
    silent.tarpit(False)
    full.free_disk(home)
    locked.read_only(home, False)
    done = desk.run("hosts", "rekey", changed.name, "-i", str(desk.inventory), "--yes")
    assert done.returncode == 0, done.stderr
    ending.communicate(timeout=AMPLE_S)
    desk.until("struck", lambda seen: seen["state"] == "stopped")
    for host in rig.hosts.values():
        assert left_on(host, run) == []


def test_a_key_that_no_host_takes_is_named_with_the_user(rig: Rig, desk: Desk, tmp_path: Path) -> None:
    make_key(tmp_path / "other", "other")
    (tmp_path / "racks.yaml").write_text(desk.inventory.read_text().replace(str(rig.key), str(tmp_path / "other")))
    task = desk.task("stranger", TASK.format(name="stranger", nodes=2, setup="true"))
    refused = desk.run("up", str(task), "-y", "-i", str(tmp_path / "racks.yaml"))
    assert refused.returncode == 4, refused.stderr
    assert f"permission denied for `{rig.user}`; tried key `{tmp_path}/other`" in refused.stderr
    assert "check the network of this machine, and the user and key in the inventory" in refused.stderr


def spoil(rig: Rig) -> dict[str, tuple[Callable[[Host], object], str]]:
    """What is done to each host but two, and what has to be said of it."""
    home = f"/home/{rig.user}"
    return {
        "r01-n01": (Host.power_cut, "reachable: no answer on port 22"),
        "r01-n02": (lambda host: host.drop(True), "reachable: no answer on port 22"),
        "r01-n03": (lambda host: host.tarpit(True), "reachable: connected, but no SSH banner"),
        "r01-n04": (lambda host: host.fill_disk(home), "disk: `/` has 0.0 GiB free, but a run needs 1.0 GiB"),
        "r01-n05": (lambda host: host.read_only(home, True), "folders: cannot create a file in `~/.nvlaunch/runs`"),
        "r01-n06": (Host.rekey, "reachable: the host key has changed to"),
        "r01-n07": (Host.hide_python, "python: no Python 3.6 or later found on the node"),
        "r01-n08": (lambda host: host.shift_clock(3600), "s ahead of this machine; synchronise it with chrony or ntpd"),
        "r01-n09": (
            lambda host: host.spawn(["sh", "-c", DEAF], user=rig.user, env=LEFT),
            "of run `old-run`; stop with `kill -9 ",
        ),
        "r01-n10": (
            lambda host: host.spawn([RAYLET, "3600"], user="other"),
            "other ray: Ray of `other` runs on the node",
        ),
        "r01-n11": (lambda host: host.ray_version("2.61.3"), "ray: Ray version differs: r01-n[12-13]: "),
    }


def said_of(node: str, said: str) -> str:
    """What is told of a node, alone or with others of which the same is true."""
    told = [line.strip().partition(": ") for line in said.splitlines() if line.startswith("  r01-n")]
    return "\n".join(words for names, _, words in told if node in expand(names))


def test_hosts_that_cannot_serve_are_all_named_with_what_is_wrong_and_nothing_is_begun(rig: Rig, desk: Desk) -> None:
    faults = spoil(rig)
    rig["r01-n10"].run(["cp", "/bin/sleep", RAYLET])
    for name, (strike, _) in faults.items():
        strike(rig[name])
    before = json.loads(desk.run("status", "-o", "json").stdout)
    code, said = up(desk, "refused", 3)
    assert code == 3, said
    for name, (_, words) in faults.items():
        assert words in said_of(name, said), f"{name}: {said}"
    assert json.loads(desk.run("status", "-o", "json").stdout) == before, "nothing was begun"
    code, said = up(desk, "torn", 2)
    assert code == 4, said
    assert "ray: Ray version differs: r01-n12: 2.60.0; r01-n11: 2.61.3" in said, (
        "of two nobody can be called the odd one"
    )
    assert "hint: make them equal, or exclude one side with `exclude_nodes`" in said
