"""A run that goes on gets a slice more, and one less again: real Ray on local racks."""

from collections.abc import Iterator

import pytest

from launcher.store.status_reads import StatusReader
from tests.desk import Desk
from tests.real.local import raylets

INVENTORY = """
name: resize-racks
transport: local
lease_path: {home}/lease
racks:
  r1: {{nodes: {{a1: {{address: 127.0.73.1}}}}}}
  r2: {{nodes: {{b1: {{address: 127.0.74.1}}}}}}
"""
TASK = """
name: elastic
resources: {{accelerators: GB300:4}}
topology: {{slices: {slices}, nodes_per_slice: 1}}
envs: {{GATE: null}}
secrets: {{TOKEN: null}}
stop_grace: 2
setup: echo set up
run: |
  echo "attempt $NVLAUNCH_ATTEMPT, $NODE_RANK of $NNODES, ${{#TOKEN}} letters"
  until [ -e "$GATE" ]; do sleep 0.1; done
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    made = Desk(folder, INVENTORY.format(home=folder), TOKEN="s3cret")
    yield made
    made.run("down", "--all", "-y")


def resized(desk: Desk, slices: int) -> None:
    task = desk.task("elastic", TASK.format(slices=slices))
    given = () if "elastic" in StatusReader(desk.home).names() else ("--secret", "TOKEN")
    begun = desk.run(*desk.up_args(task), "-d", *given)
    assert begun.returncode == 0, begun.stderr


def running(desk: Desk, ranks: int, attempt: int) -> None:
    desk.until(
        "elastic", lambda seen: (seen["state"], len(seen["ranks"]), seen.get("attempt")) == ("running", ranks, attempt)
    )


def test_what_stays_keeps_its_raylet_and_what_goes_leaves_nothing(desk: Desk) -> None:
    resized(desk, 1)
    running(desk, 1, 1)
    kept = raylets("127.0.73.1")
    resized(desk, 2)
    running(desk, 2, 2)
    assert raylets("127.0.74.1")
    desk.until("elastic", lambda _: "attempt 2, 1 of 2" in desk.run("logs", "elastic", "--rank", "1").stdout)
    resized(desk, 1)
    running(desk, 1, 3)
    desk.until("elastic", lambda _: not raylets("127.0.74.1"))
    assert raylets("127.0.73.1") == kept, "the slice that stayed was not left alone"
    desk.until("elastic", lambda _: "released b1" in desk.run("events", "elastic").stdout)
    resized(desk, 2)
    running(desk, 2, 4)
    desk.until("elastic", lambda _: "attempt 4, 1 of 2, 6 letters" in desk.run("logs", "elastic", "--rank", "1").stdout)
    desk.gate("elastic").touch()
    ended = desk.until("elastic", lambda seen: seen["state"] == "succeeded")
    assert ended["outcome"]["message"]
    events = desk.run("events", "elastic").stdout
    assert events.count("started to prepare a1") == 1, "it was set up anew"
