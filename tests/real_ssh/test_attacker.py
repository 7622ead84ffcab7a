"""Another user on the nodes of a run tries all that a user can: he learns no secret, and the run ends well."""

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.store.store import Store
from tests.desk import AMPLE_S, Desk
from tests.effort import SOAK
from tests.rig import Host, Rig
from tests.rig.layer import accounts

ATTACKER = Path(__file__).parents[1] / "rig" / "attacker.py"
SECRET, CANARY = "hush-4711-secret", "left-open-for-everybody"
RAY_PORTS = 3  # at the least, of each of its processes that listen for others
SECONDS = 3600.0 if SOAK else 0.0
TASK = """
name: target
resources: {accelerators: GB300:4}
topology: {slices: 1, nodes_per_slice: 2, spares: 1}
recovery: {max_restarts: 0}
stop_grace: 2
secrets: {TOKEN: null}
run: |
  echo "rank $NODE_RANK knows ${#TOKEN} letters"
  until [ -e /tmp/gate ]; do sleep 0.2; done
"""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """Four hosts: two with ranks, a spare, and one that is no part of the run."""
    with Rig(1, 4, python=sys.executable, name="attack") as made:
        yield made


@pytest.fixture
def desk(rig: Rig, tmp_path: Path) -> Iterator[Desk]:
    (tmp_path / ".ssh").mkdir()
    made = Desk(tmp_path, rig.inventory(), HOME=str(tmp_path), TOKEN=SECRET)
    yield made
    if made.seen("target").get("state") != "succeeded":
        made.run("down", "--all", "-y")


def attack(host: Host, others: list[str], told: dict[str, Any]) -> None:
    """Let the attacker work on a host; what he says goes to `told`."""
    folder = f"{accounts()['other'].home}/attack"
    host.run(["mkdir", "-p", folder], user="other")
    argv = ["sh", "-c", 'cd "$1" && shift && exec python3 -c "$@"', "sh", folder, ATTACKER.read_text(), str(SECONDS)]
    ended = host.run([*argv, *others], user="other", timeout=SECONDS + 120)
    told[host.name] = json.loads(ended.stdout)


def secrets(desk: Desk, run: str) -> dict[str, str]:
    """What nobody else may learn: the task's secret, Ray's token, the key for heartbeats."""
    folder = desk.home / "runs" / run
    return {"secret": SECRET, **{name: (folder / name).read_text() for name in ("token", "key")}}


@pytest.mark.timeout(0 if SOAK else 300)
def test_another_user_on_the_nodes_learns_nothing_and_ends_nothing(rig: Rig, desk: Desk) -> None:
    task, shown = str(desk.task("target", TASK)), ["--foreground", "--rank", "all"]
    up = desk.begin("up", task, "-y", "--secret", "TOKEN", "-i", str(desk.inventory), *shown)
    seen = desk.until("target", lambda seen: seen["state"] in ("running", "failed"))
    assert seen["state"] == "running", desk.run("events", "target").stdout
    hosts = list(rig.hosts.values())
    for host in hosts:
        host.write("/tmp/canary", CANARY)
        host.run(["chmod", "0700", f"/home/{rig.user}"])

    told: dict[str, Any] = {}
    addresses = [host.address for host in hosts]
    threads = [threading.Thread(target=attack, args=(host, addresses, told)) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(told) == {host.name for host in hosts}, "the attacker was ended"
    print("\n".join(f"{name}: {report['tried']}" for name, report in sorted(told.items())))
    for name, report in told.items():
        assert report["won"] == {}, f"{name}: {report}"
        wanted = {"port", "process", "path", "readable file", "unix socket", "squatted name", "crowding connection"}
        assert wanted <= report["tried"].keys(), f"{name}: {report}"
        assert report["tried"]["heartbeat server"] >= 1
        assert report["tried"]["port elsewhere"] >= 2 * RAY_PORTS * 3, "the head's, and those of both ranks"
    assert sum(report["tried"].get("forged lease", 0) for report in told.values()) >= 3, "one on each node of the run"
    for host in hosts:
        loot = host.run(["cat", f"{accounts()['other'].home}/attack/loot"]).stdout
        assert CANARY in loot, "what is open is found"
        for what, value in secrets(desk, seen["id"]).items():
            assert value not in loot, f"the attacker on {host.name} has the {what}"
        assert host.read(f"{accounts()['other'].home}/attack/victim") == "untouched"

    now = desk.seen("target")
    assert (now["state"], now["attempt"], now["restarts"]) == ("running", 1, 0), desk.run("events", "target").stdout
    for host in hosts:
        host.write("/tmp/gate", "", user="root")
    out, err = up.communicate(timeout=AMPLE_S)
    assert up.returncode == 0, err
    for rank in range(2):
        assert f"rank {rank} knows {len(SECRET)} letters" in out
    events = " ".join(f"{one.kind.value} {one.message}" for one in Store(desk.home).journal.events(seen["id"]))
    for word in ("node-failed", "recovering", "unreachable", "restart"):
        assert word not in events
