"""A whole run with mounted buckets on local racks: a restart in place, a store that is away, a node that is replaced,
a controller that is killed, and its end."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.core.model.run import RunId
from launcher.runtime import fuse, procs
from launcher.setup import layout
from tests.desk import Desk
from tests.effort import SOAK
from tests.real.buckets.store import KEY, SECRET, Store, wait_until

AWAY_S = 60.0 if SOAK else 5.0
AWAY = threading.Event()
INVENTORY = """
name: bucket-rack
transport: local
lease_path: {home}/lease
racks:
  r1:
    gpu_driver: none
    nodes: {{b1: {{address: 127.0.75.1}}, b2: {{address: 127.0.75.2}}, b3: {{address: 127.0.75.3}}}}
storage:
  s3: {{endpoint: {endpoint}, access_key: STORE_KEY, secret_key: STORE_SECRET}}
"""
TASK = """
name: mounted
topology: {{slices: 1, nodes_per_slice: 2, spares: 1}}
recovery: {{max_restarts: 3, node_attempts: 1}}
secrets: {{STORE_KEY: {key}, STORE_SECRET: {secret}}}
file_mounts:
  up: {{name: run-up, source: {local}, store: s3}}
  copy: s3://run-up
  out: {{source: s3://run-out, mode: MOUNT_CACHED}}
setup: cmp copy/hello up/hello
run: |
  grep -c . up/hello
  echo $NVLAUNCH_ATTEMPT > out/attempt-$NVLAUNCH_ATTEMPT-$NVLAUNCH_NODE_RANK
  [ $NVLAUNCH_ATTEMPT$NVLAUNCH_NODE_RANK != 11 ] || exit 3
  while [ ! -e {folder}/end ]; do
    grep -q hello up/hello || exit 9
    echo $((beats += 1)) > out/beats-$NVLAUNCH_NODE_RANK || exit 9
    sleep 0.2
  done
"""


@pytest.fixture
def desk(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    made = Desk(folder, INVENTORY.format(home=folder, endpoint=store.endpoint))
    yield made
    made.run("down", "--all", "-y")


def _beats(out: Path) -> list[int]:
    """How far the ranks are, by what is in the bucket."""
    return [int(path.read_text() or 0) for path in sorted(out.glob("beats-*"))]


def _mounts(run: str, place: str) -> int:
    return len(fuse.of_run(run, place))


def test_a_run_keeps_its_mounts_over_restarts_an_absent_store_and_controller_and_on_a_new_node(
    desk: Desk, store: Store
) -> None:
    store.bucket("run-out")
    local = desk.folder / "local"
    local.mkdir()
    (local / "hello").write_text("hello\n")
    text = TASK.format(key=KEY, secret=SECRET, local=local, folder=desk.folder)
    up = desk.begin(*desk.up_args(desk.task("mounted", text)), "--foreground")
    out = store.bucket("run-out")
    wait_until(lambda: (out / "attempt-2-1").exists() and (out / "attempt-2-0").exists(), 150)
    run = str(desk.status("mounted")["id"])
    assert [_mounts(run, place) for place in ("b1", "b2")] == [2, 2]
    store.proxy.leave()
    AWAY.wait(AWAY_S)
    before = _beats(out)
    store.proxy.come_back()
    wait_until(lambda: all(now > was + 2 for now, was in zip(_beats(out), before, strict=True)), 120)
    assert desk.status("mounted")["attempt"] == 2
    for process in procs.scan(procs.Scope(run=run, place="b2")) + procs.agents(run, "b2"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: (out / "attempt-3-0").exists() and (out / "attempt-3-1").exists(), 150)
    nodes = [rank["node"] for rank in desk.status("mounted")["ranks"]]
    wait_until(lambda: [_mounts(run, place) for place in nodes] == [2, 2], 30)
    print(nodes, [_mounts(run, place) for place in ("b1", "b2", "b3")])
    print(desk.run("events", "mounted").stdout)
    up.kill()
    up.communicate(timeout=20)
    with desk.begin("watch", "mounted") as watch:
        (desk.folder / "end").touch()
        _, err = watch.communicate(timeout=120)
    assert watch.returncode == 0, err
    assert [_mounts(run, place) for place in ("b1", "b2", "b3")] == [0, 0, 0]
    scratches = [layout.local(str(desk.home), RunId(run), place).scratch for place in ("b1", "b2", "b3", "@head")]
    assert not [path for path in scratches if Path(path).exists() or Path("/dev/shm", Path(path).name).exists()]
    assert (store.bucket("run-up") / "hello").read_text() == "hello\n"
    assert SECRET not in "".join(_texts(desk.folder))


def _texts(folder: Path) -> Iterator[str]:
    """What the run wrote down: logs and journal; the secrets of the task are in their own file while it runs."""
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix in (".log", ".json", ".db", "") and path.stat().st_size < 10_000_000:
            yield path.read_bytes().decode(errors="replace") if path.parent.name != "tasks" else ""
