"""Nodes that are cut off or installed anew under a run: who is believed, and what is left there, on real hosts."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import AMPLE_S, Desk
from tests.effort import SOAK
from tests.real_ssh.stages import left_on
from tests.rig import Host, Rig

TASK = """
name: {name}
resources: {{accelerators: GB300:4}}
topology: {{slices: 1, nodes_per_slice: 2, spares: {spares}}}
secrets: {{PASSPHRASE: hunter2-of-the-rig}}
recovery: {{max_restarts: 0}}
stop_grace: 1
run: {run}
"""
CUT_S = 40.0


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """Three hosts, and one for Ray heads."""
    with Rig(1, 3, head=True, python=sys.executable, name="leftbehind") as made:
        yield made


@pytest.fixture
def desk(rig: Rig, tmp_path: Path) -> Iterator[Desk]:
    (tmp_path / ".ssh").mkdir()
    made = Desk(tmp_path, rig.inventory(), HOME=str(tmp_path))
    yield made
    made.run("down", "--all", "-y")


def begun(desk: Desk, rig: Rig, name: str, *, spares: int, run: str) -> tuple[str, Host]:
    """A run whose ranks run; its id, and the host of rank 1."""
    task = desk.task(name, TASK.format(name=name, spares=spares, run=run))
    up = desk.run("up", str(task), "-y", "-d", "-i", str(desk.inventory))
    assert up.returncode == 0, up.stderr
    seen = desk.until(name, lambda seen: seen["state"] == "running")
    return str(seen["id"]), rig[next(rank["node"] for rank in seen["ranks"] if rank["rank"] == 1)]


def secrets_on(host: Host) -> str:
    found = host.run(["grep", "-rls", "hunter2-of-the-rig", "/dev/shm", "/tmp", "/home"], check=False)
    return str(found.stdout).strip()


def replaced(seen: dict[str, object], host: Host) -> bool:
    ranks = seen["ranks"]
    assert isinstance(ranks, list)
    return seen["state"] == "running" and seen["attempt"] == 2 and host.name not in {rank["node"] for rank in ranks}


def test_what_is_left_on_a_node_that_was_cut_off_is_named_and_released_on_request(desk: Desk, rig: Rig) -> None:
    run, host = begun(desk, rig, "cut", spares=1, run="sleep 600")
    assert secrets_on(host)
    host.link(False)
    desk.until("cut", lambda seen: replaced(seen, host))
    assert not secrets_on(host), "an agent that has ended its ranks removes their secrets"
    down = desk.run("down", "cut", "-y")
    assert f"Not released: {host.name}" in down.stderr
    assert f"nvlaunch down {run}" in str(desk.status("cut")["status_message"])
    assert left_on(host, run), "the agent has kept the lease"
    host.link(True)
    doctor = desk.run("doctor", host.name, "-i", str(desk.inventory))
    assert f"agent of run `cut`, which has ended; release it with nvlaunch down {run}" in doctor.stdout
    again = desk.run("down", run, "-y")
    assert again.returncode == 0, again.stderr
    assert f"released what `cut` had left on {host.name}" in again.stderr
    assert left_on(host, run) == []
    assert "not released" not in str(desk.status("cut")["status_message"])


def test_ranks_that_end_well_while_one_is_cut_off_do_not_run_again(desk: Desk, rig: Rig) -> None:
    drained = desk.run("drain", "r01-n03", "--reason", "no other node for the rank", "-y", "-i", str(desk.inventory))
    assert drained.returncode == 0, drained.stderr
    _, host = begun(desk, rig, "ends", spares=0, run="until [ -e /tmp/go ]; do sleep 0.1; done")
    host.link(False)
    try:
        for at in (1, 2, 3):
            rig[f"r01-n0{at}"].write("/tmp/go", "")
        back = time.monotonic() + CUT_S
        desk.until("ends", lambda _: time.monotonic() >= back)
        assert desk.status("ends")["state"] != "succeeded", desk.run("events", "ends").stdout
    finally:
        host.link(True)
    ended = desk.until("ends", lambda seen: seen["state"] == "succeeded")
    assert (ended["attempt"], ended["restarts"]) == (1, 0)


def test_a_node_that_was_installed_anew_is_replaced_in_the_usual_time_and_named(desk: Desk, rig: Rig) -> None:
    _, host = begun(desk, rig, "anew", spares=1, run="sleep 600")
    host.power_cut()
    host.boot(reimaged=True)
    lost = time.monotonic()
    seen = desk.until("anew", lambda seen: replaced(seen, host))
    assert time.monotonic() - lost < AMPLE_S / 2
    told = f"{host.name}: host key has changed (re-imaged?): nvlaunch hosts rekey {host.name}"
    if told not in str(seen["status_message"]):
        desk.until("anew", lambda seen: told in str(seen["status_message"]))


@pytest.mark.parametrize("lost", ["anew", "agent"] if SOAK else ["anew"])
def test_the_node_of_the_head_is_replaced_without_a_word_of_an_operator(desk: Desk, rig: Rig, lost: str) -> None:
    """Its machine was installed anew; or it lives, nobody can log in, and the head's agent was killed there."""
    inventory = desk.inventory.read_text().splitlines(keepends=True)
    desk.inventory.write_text("".join(line for line in inventory if not line.startswith("head:")))
    run, _ = begun(desk, rig, f"crown{lost}", spares=1, run="exec sleep 987654")
    ranks = desk.status(f"crown{lost}")["ranks"]
    host = rig[next(rank["node"] for rank in ranks if rank["rank"] == 0)]
    if lost == "anew":
        host.power_cut()
        host.boot(reimaged=True)
    else:
        host.stop_sshd(sessions=True)
        (agent,) = (one for one in host.processes(run) if "serve" in one.argv and "@head" in " ".join(one.argv))
        host.kill(agent.pid)
    try:
        seen = desk.until(f"crown{lost}", lambda seen: replaced(seen, host))
        assert not [one.argv for one in host.processes("987654")], "a rank of the attempt before"
        assert seen["restarts"] == 0
        assert "self-fenced: no answer to 2 peers for" in desk.run("events", f"crown{lost}").stdout
    finally:
        if lost == "agent":
            host.start_sshd()
