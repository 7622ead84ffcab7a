"""What goes wrong between `up` and `down` on real hosts: each ends in the right state, and nothing is left."""

import sys
import time
from collections.abc import Iterator

import pytest

from tests.desk import AMPLE_S, Desk
from tests.real_ssh.stages import left_on
from tests.rig import Rig

TASK = """
name: {name}
resources: {{accelerators: GB300:4}}
topology: {{slices: 1, nodes_per_slice: 2, spares: {spares}}}
stop_grace: 1
setup: |
  {setup}
run: |
  echo "rank $NODE_RANK on $(hostname) attempt $NVLAUNCH_ATTEMPT"
  {run}
"""
WAIT = "until [ -e /tmp/gate ]; do sleep 0.2; done"
# A daemon as they come: a session of its own, no parent, deaf to TERM.
DAEMON = "setsid sh -c 'trap \"\" TERM; sleep 600 & wait; sleep 600' >/dev/null 2>&1 &"


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """One rack of five hosts: a run with a spare and one without."""
    with Rig(1, 5, python=sys.executable, name="launchfaults") as made:
        yield made


@pytest.fixture(scope="module")
def desk(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    (folder / ".ssh").mkdir()
    made = Desk(folder, rig.inventory(), HOME=str(folder))
    yield made
    made.run("down", "--all", "-y")


def up(desk: Desk, name: str, *more: str, setup: str = "true", run: str = WAIT, spares: int = 1) -> tuple[int, str]:
    """Start a task detached; return exit code and narration."""
    text = TASK.format(name=name, setup=setup, run=run, spares=spares)
    done = desk.run("up", str(desk.task(name, text)), "-y", "-d", "-i", str(desk.inventory), *more)
    return done.returncode, done.stderr


def down(rig: Rig, desk: Desk, name: str) -> None:
    """Take a run down; nothing of it lives anywhere."""
    run = desk.status(name)["id"]
    done = desk.run("down", name, "-y")
    assert done.returncode == 0, done.stderr
    for host in rig.hosts.values():
        assert left_on(host, run) == []


def over(seen: dict[str, object]) -> bool:
    return seen["state"] in ("succeeded", "failed", "stopped")


def test_a_setup_that_fails_on_one_node_gives_its_slot_to_the_spare(rig: Rig, desk: Desk) -> None:
    code, said = up(desk, "badsetup", setup="[ $(hostname) != r01-n02 ] || { echo no such driver; exit 7; }")
    assert code == 0, said
    seen = desk.until("badsetup", lambda seen: seen["state"] == "running" or over(seen))
    assert [rank["node"] for rank in seen["ranks"]] == ["r01-n01", "r01-n03"], desk.run("events", "badsetup").stdout
    assert "setup: exited with 7" in desk.run("events", "badsetup").stdout
    down(rig, desk, "badsetup")


def test_a_setup_that_fails_without_a_spare_ends_the_launch_and_names_node_and_stage(rig: Rig, desk: Desk) -> None:
    setup = "[ $(hostname) != r01-n02 ] || { echo no such driver; exit 7; }"
    text = TASK.format(name="nospare", setup=setup, run=WAIT, spares=0)
    done = desk.run("up", str(desk.task("nospare", text)), "-y", "-i", str(desk.inventory))
    assert done.returncode == 4, done.stderr
    assert "r01-n02: setup: exited with 7" in done.stderr
    assert "no such driver" in done.stderr
    for host in rig.hosts.values():
        assert left_on(host, desk.status("nospare")["id"]) == []


def test_a_setup_that_hangs_is_ended_by_down_with_all_that_it_started(rig: Rig, desk: Desk) -> None:
    assert up(desk, "hangs", setup=f"{DAEMON} sleep 600")[0] == 0
    desk.until("hangs", lambda seen: "in setup" in str(seen["status_message"]))
    down(rig, desk, "hangs")
    for host in rig.hosts.values():
        assert not [p for p in host.processes() if p.argv[:2] == ("sleep", "600")]


def test_daemons_of_ranks_that_ignore_term_are_gone_after_down(rig: Rig, desk: Desk) -> None:
    assert up(desk, "daemons", run=f"{DAEMON} {WAIT}")[0] == 0
    desk.until("daemons", lambda seen: seen["state"] == "running")
    down(rig, desk, "daemons")
    for host in rig.hosts.values():
        assert not [p for p in host.processes() if p.argv[:2] == ("sleep", "600")]


def test_a_network_that_is_cut_for_thirty_seconds_while_nodes_are_made_ready_only_delays_the_launch(
    rig: Rig, desk: Desk
) -> None:
    """And where there is a spare, it has the slot; the node that comes back goes on with nothing."""
    setup = "echo begun >> /tmp/cut; sleep 45; echo done >> /tmp/cut"
    assert up(desk, "spared", setup=setup, spares=1)[0] == 0
    assert up(desk, "cut", setup=setup, run="exit 0", spares=0)[0] == 0
    lost = {}
    for name in ("spared", "cut"):
        seen = desk.until(name, lambda seen: "2 nodes in setup" in str(seen["status_message"]))
        lost[name] = rig[seen["ranks"][1]["node"]]
    for host in lost.values():
        host.link(False)
    time.sleep(30)  # the length of the cut is what this test is about
    for host in lost.values():
        host.link(True)
    said = desk.run("events", "cut").stdout
    assert f"main/1 waits for {lost['cut'].name}, unreachable for 20 s during setup" in said
    done = desk.run("watch", "cut")
    assert done.returncode == 0, done.stderr
    seen = desk.status("cut")
    assert (seen["attempt"], seen["ranks"][1]["node"]) == (1, lost["cut"].name)
    assert lost["cut"].read("/tmp/cut").split() == ["begun", "done"], "its setup went on, and once"
    seen = desk.until("spared", lambda seen: seen["state"] == "running")
    assert seen["attempt"] == 1
    assert seen["ranks"][1]["node"] not in (lost["spared"].name, lost["cut"].name)
    assert lost["spared"].read("/tmp/cut").split() == ["begun"], "its setup was ended"
    down(rig, desk, "spared")
    for each in rig.hosts.values():
        each.run(["rm", "-f", "/tmp/cut"])


def test_down_says_release_pending_while_a_node_is_gone_and_ends_when_it_is_back(rig: Rig, desk: Desk) -> None:
    assert up(desk, "gone", spares=0)[0] == 0
    seen = desk.until("gone", lambda seen: seen["state"] == "running")
    host = rig[seen["ranks"][1]["node"]]
    host.link(False)
    done = desk.begin("down", "gone", "-y")
    desk.until("gone", lambda seen: seen["state"] == "release-pending")
    host.link(True)
    done.communicate(timeout=AMPLE_S)
    desk.until("gone", over)
    for each in rig.hosts.values():
        assert left_on(each, seen["id"]) == []
