"""Buckets that are mounted on a node for the life of its run."""

import importlib
import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from launcher.core.model.buckets import BucketMount, MountMode, ObjectStore
from launcher.transport.upload import rclone
from tests.effort import SOAK
from tests.real.buckets.conftest import NewNode
from tests.real.buckets.node import AgentNode
from tests.real.buckets.store import Store, wait_until

bucket_commands = importlib.import_module("launcher.runtime.bucket_commands")


def _mount(bucket: str, mode: MountMode = MountMode.MOUNT) -> BucketMount:
    return BucketMount(url=f"s3://{bucket}", store=ObjectStore.S3, bucket=bucket, mode=mode)


def _anew(node: AgentNode, before: list[int]) -> bool:
    """Whether another rclone than before serves the mount."""
    return node.pids("rclone") not in ([], before) and node.up()


def test_a_mount_outlives_gangs_and_ends_with_the_run(store: Store, new_node: NewNode) -> None:
    (store.bucket("plain") / "file").write_text("content")
    node = new_node({"data": _mount("plain")})
    assert node.prepared()["phase"] == "done"
    here = node.folder / "workdir" / "data"
    assert (here / "file").read_text() == "content"
    (rclone,) = node.pids("rclone")
    killed = node.ask(op="kill", level="rank", member="main/0", generation=0, attempt=1)
    assert killed["ok"]
    assert node.ask(op="kill", level="generation", member="main/0", generation=5)["ok"]
    assert node.pids("rclone") == [rclone]
    (here / "new").write_text("written")
    assert (store.bucket("plain") / "new").read_text() == "written"
    assert node.ask(op="status")["mounts"][0]["up"]
    assert node.stop() == {"ok": True, "left": []}
    assert node.mounted() == []
    assert not here.exists()
    assert sorted(path.name for path in store.bucket("plain").iterdir()) == ["file", "new"]


def test_a_mount_whose_rclone_dies_or_hangs_is_made_again(store: Store, new_node: NewNode) -> None:
    (store.bucket("again") / "file").write_text("content")
    node = new_node({"data": _mount("again")})
    assert node.prepared()["phase"] == "done"
    file = node.folder / "workdir" / "data" / "file"
    for number in (signal.SIGKILL, signal.SIGSTOP):
        before = node.pids("rclone")
        os.kill(before[0], number)
        wait_until(partial(_anew, node, before), 60)
        assert file.read_text() == "content"
    assert "did not answer" in (node.folder / "log" / "mounts.log").read_text()
    assert node.stop()["ok"]
    assert node.mounted() == []


def test_no_dead_mount_is_left_by_an_agent_or_monitor_that_is_killed(store: Store, new_node: NewNode) -> None:
    store.bucket("killed")
    node = new_node({"data": _mount("killed")})
    assert node.prepared()["phase"] == "done"
    (monitor,) = node.pids("mount_monitor")
    os.kill(monitor, signal.SIGKILL)
    wait_until(lambda: node.pids("mount_monitor") not in ([], [monitor]) and len(node.mounted()) == 1 and node.up(), 60)
    os.kill(node.agent(), signal.SIGKILL)
    wait_until(lambda: node.mounted() == [] and node.pids("rclone") == [], 30)
    assert node.begin()["ok"]
    assert node.prepared()["phase"] == "done"
    (monitor,) = node.pids("mount_monitor")
    os.kill(monitor, signal.SIGSTOP)
    os.kill(node.agent(), signal.SIGKILL)
    stopped = node.orphans(op="stop")
    assert stopped["ok"], stopped
    assert node.mounted() == []
    assert not Path("/dev/shm", node.scratch.name).exists()


def test_a_cached_mount_sends_its_writes_before_the_run_ends(store: Store, new_node: NewNode) -> None:
    bucket = store.bucket("cached")
    node = new_node({"out": _mount("cached", MountMode.MOUNT_CACHED)})
    assert node.prepared()["phase"] == "done"
    (node.folder / "workdir" / "out" / "model").write_bytes(b"x" * 3_000_000)
    first = node.ask(op="stop")
    assert not first["ok"], first
    assert "1 file, 3.0 MB (cached/model)" in first["message"]
    replies = [first]

    def ended() -> bool:
        replies.append(node.ask(op="stop"))
        return bool(replies[-1]["ok"])

    wait_until(ended, 30)
    assert "message" not in replies[-1]
    assert (bucket / "model").stat().st_size == 3_000_000


def test_writes_that_were_not_sent_are_named_and_never_sent_after_a_kill(store: Store, new_node: NewNode) -> None:
    bucket = store.bucket("unsent")
    node = new_node({"out": _mount("unsent", MountMode.MOUNT_CACHED)})
    assert node.prepared()["phase"] == "done"
    try:
        with (node.folder / "workdir" / "out" / "late").open("w") as late:  # to open it, the store is asked
            store.proxy.leave()
            late.write("late")
        killed = node.ask(op="kill", level="node", grace=0)
    finally:
        store.proxy.come_back()
    assert killed["ok"]
    assert "writes were not sent to the bucket: 1 file, 4 B (unsent/late)" in killed["message"]
    assert node.mounted() == []
    kept = [path for path in (node.folder / "unsent").rglob("late") if "vfsMeta" not in path.parts]
    assert [path.read_text() for path in kept] == ["late"]
    assert node.prepared()["phase"] == "done"
    wait_until(node.up)
    assert list((node.folder / "workdir" / "out").iterdir()) == []
    assert node.stop()["ok"]
    assert list(bucket.iterdir()) == []


def test_a_path_that_is_in_use_is_refused_by_name(store: Store, new_node: NewNode, tmp_path: Path) -> None:
    store.bucket("taken")
    target = tmp_path / "taken"
    target.mkdir()
    (target / "mine").write_text("mine")
    node = new_node({str(target): _mount("taken")})
    assert node.prepare()["ok"]
    wait_until(lambda: node.rows() and "is not an empty folder" in node.rows()[0]["message"])
    assert node.stop()["ok"]
    assert (target / "mine").read_text() == "mine"


@pytest.mark.parametrize("away", ["gone", "silent"] if SOAK else ["gone"])
def test_while_the_store_is_away_programs_wait_and_can_be_killed_and_then_read_on(
    store: Store, new_node: NewNode, away: str
) -> None:
    (store.bucket("away") / "file").write_text("content")
    node = new_node({"data": _mount("away")}, place=away)
    assert node.prepared()["phase"] == "done"
    file = node.folder / "workdir" / "data" / "file"
    marked = {**os.environ, "NVLAUNCH_MARK": f"{node.run}:{node.place}:1:main/0:1"}
    _, said = (store.proxy.leave(), "no connection") if away == "gone" else (store.proxy.hang(), "does not answer")
    with subprocess.Popen(["cat", str(file)], env=marked, stdout=subprocess.PIPE) as stuck:
        wait_until(lambda: said in node.rows()[0]["message"], 40)
        assert stuck.poll() is None
        killed = node.ask(op="kill", level="rank", member="main/0", generation=1, attempt=1)
        assert killed["ok"], killed
    with subprocess.Popen(["cat", str(file)], env=marked, stdout=subprocess.PIPE) as patient:
        store.proxy.come_back()
        wait_until(lambda: node.up() and not node.rows()[0]["message"].startswith("the store"), 90)
    wait_until(lambda: subprocess.run(["cat", str(file)], capture_output=True, timeout=60).stdout == b"content", 60)
    assert patient.returncode is not None
    assert node.stop()["ok"]


def test_a_mount_that_containers_use_is_closed_to_other_users_of_the_node(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_text("content")
    here = tmp_path / "here"
    here.mkdir()
    spec = {"mode": "MOUNT", "remote": str(tmp_path / "source")}
    argv = bucket_commands.mount(str(rclone.here()), spec, str(here), "closed", tmp_path / "cache", allow_other=True)
    served = subprocess.Popen(argv, env={"PATH": os.environ["PATH"], "RCLONE_CONFIG": "/dev/null"})
    try:
        wait_until(lambda: os.path.ismount(here), 30)
        assert (here / "file").read_text() == "content"
        tmp_path.chmod(0o755)
        said = [
            subprocess.run(["ls", name], cwd=tmp_path, user=65534, group=65534, capture_output=True, text=True)
            for name in ("source", "here")
        ]
        assert (said[0].stdout, "Permission denied" in said[1].stderr) == ("file\n", True), said
    finally:
        served.terminate()
        served.wait(30)
