"""The main job as a person runs it: the command, a detached controller, real Ray on local racks."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

AMPLE_S = 120.0

INVENTORY = """
name: up-racks
transport: local
lease_path: {home}/lease
defaults: {{gpus: 4}}
racks:
  r1: {{nodes: {{a1: {{address: 127.0.61.1}}, a2: {{address: 127.0.61.2}}, a3: {{address: 127.0.61.3}}}}}}
  r2: {{nodes: {{b1: {{address: 127.0.62.1}}, b2: {{address: 127.0.62.2}}, b3: {{address: 127.0.62.3}}}}}}
"""

TASK = """
name: {name}
resources: {{accelerators: GB300:4}}
topology: {{slices: 2, nodes_per_slice: 2}}
envs: {{GATE: null}}
recovery: {{max_restarts: {restarts}}}
stop_grace: 2
setup: echo set up $SKYPILOT_SETUP_NODE_RANK
run: |
  env | sort
  {body}
"""

SECRET = b"hush-4711"
WAIT = 'until [ -e "$GATE" ]; do sleep 0.1; done'


class Desk:
    """Where a person sits: a home, an inventory, and the command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.inventory = folder / "racks.yaml"
        self.inventory.write_text(INVENTORY.format(home=folder))
        self.env = {**os.environ, "NVLAUNCH_HOME": str(self.home), "SECRET_WORD": SECRET.decode(), "NO_COLOR": "1"}

    def task(self, name: str, *, body: str = WAIT, restarts: int = 0) -> Path:
        """A task file of two slices of two nodes, and the gate that its ranks wait for."""
        path = self.folder / f"{name}.yaml"
        path.write_text(TASK.format(name=name, body=body, restarts=restarts))
        return path

    def gate(self, name: str) -> Path:
        return self.folder / f"{name}.gate"

    def up_args(self, task: Path, *more: str) -> list[str]:
        gate = f"GATE={self.gate(task.stem)}"
        return ["up", str(task), "-y", "-i", str(self.inventory), "--env", gate, *more]

    def begin(self, *args: str) -> "subprocess.Popen[str]":
        """Start the command and leave it running."""
        return subprocess.Popen(
            [sys.executable, "-m", "launcher.cli", *args],
            env=self.env,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *args: str) -> "subprocess.CompletedProcess[str]":
        """Run the command to its end."""
        with self.begin(*args) as process:
            out, err = process.communicate(timeout=AMPLE_S)
            return subprocess.CompletedProcess(args, process.returncode, out, err)

    def status(self, name: str) -> dict[str, Any]:
        shown = self.run("status", name, "-o", "json")
        assert shown.returncode == 0, shown.stderr
        return dict(json.loads(shown.stdout)[0])

    def until(self, name: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The status of a run as soon as it is as it should be."""
        deadline = time.monotonic() + AMPLE_S
        while self.run("status", name).returncode == 2 or not holds(self.status(name)):
            assert time.monotonic() < deadline, self.run("events", name).stdout
            time.sleep(0.1)
        return self.status(name)

    def controller(self, name: str) -> int:
        """The process that drives a run."""
        from launcher.store.store import Store

        owner = Store(self.home).find(name).owner
        assert owner is not None
        return owner.pid


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    made = Desk(tmp_path_factory.mktemp("desk"))
    yield made
    made.run("down", "--all", "-y")
    assert left_over(made.home) == {}


@pytest.fixture(scope="module", autouse=True)
def somebody_elses_ray() -> Iterator[None]:
    """A Ray head of the same user on its default ports: whatever is done here, it lives at the end."""
    ray = Path(sys.executable).with_name("ray")
    temp = f"/tmp/else-{os.getpid()}"
    command = [ray, "start", "--head", "--block", "--num-cpus=1", "--include-dashboard=false", f"--temp-dir={temp}"]
    env = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    head = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, start_new_session=True
    )
    yield
    alive = head.poll() is None
    os.killpg(head.pid, signal.SIGTERM)
    try:
        head.wait(15)
    except subprocess.TimeoutExpired:
        os.killpg(head.pid, signal.SIGKILL)
    subprocess.run(["rm", "-rf", temp], check=False)
    assert alive, "somebody else's Ray was killed"


def left_over(home: Path) -> dict[int, str]:
    """What is left of the runs of a home, once the controllers had a moment to leave."""
    deadline = time.monotonic() + 5.0
    while (found := processes(home)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def processes(home: Path) -> dict[int, str]:
    """Processes that belong to runs of a home, by the marker or the home in their environment or arguments."""
    found = {}
    needles = [run.name.encode() for run in (home / "runs").iterdir()] if (home / "runs").is_dir() else []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if any(needle in text for needle in needles):
            found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:120]
    return found


def test_two_slices_run_each_in_one_rack_and_end_well(desk: Desk) -> None:
    task = desk.task("main-job")
    up = desk.begin(*desk.up_args(task))
    seen = desk.until("main-job", lambda seen: seen["state"] == "running")
    assert [(rank["rank"], rank["slice"], rank["rack"], rank["node"], rank["state"]) for rank in seen["ranks"]] == [
        (0, 0, "r1", "a1", "running"),
        (1, 0, "r1", "a2", "running"),
        (2, 1, "r2", "b1", "running"),
        (3, 1, "r2", "b2", "running"),
    ]
    events = desk.run("events", "main-job").stdout
    for key, seats, rack in (("main/0", "main-0, main-1", "r1"), ("main/1", "main-2, main-3", "r2")):
        assert f"verify:{key}: done: Ray has {seats} in {rack}" in events
    racks = json.loads(desk.run("racks", "-i", str(desk.inventory), "-o", "json").stdout)
    assert "main-job" in json.dumps(racks)
    desk.gate("main-job").touch()
    _, err = up.communicate(timeout=AMPLE_S)
    assert up.returncode == 0, err
    for rank in range(4):
        log = desk.run("logs", "main-job", "--rank", str(rank)).stdout
        for line in (f"NODE_RANK={rank}", "NNODES=4", f"NVLAUNCH_SLICE={rank // 2}", f"NVLAUNCH_RACK=r{rank // 2 + 1}"):
            assert line in log.splitlines(), log
        assert "MASTER_ADDR=127.0.61.1" in log
        assert "RAY_AUTH" not in log
    assert "set up 0" in desk.run("logs", "main-job", "--provision", "--node", "a1").stdout
    assert left_over(desk.home) == {}


def test_a_rank_that_exits_3_restarts_its_gang_and_then_fails_the_run_by_name(desk: Desk) -> None:
    body = 'if [ "$NODE_RANK" = 2 ]; then echo the reason why; exit 3; fi; sleep 300'
    up = desk.run(*desk.up_args(desk.task("fails", body=body, restarts=1)))
    assert up.returncode == 1
    assert "main/2 on b1 exited with 3: restart 1 of 1" in up.stderr
    assert "the reason why" in up.stderr
    assert "main/2 on b1 exited with 3 after 1 restart" in up.stderr
    seen = desk.status("fails")
    assert (seen["state"], seen["restarts"], seen["epoch"]) == ("failed", 1, 2)
    assert seen["ranks"][2]["exit_code"] == 3
    assert left_over(desk.home) == {}


@pytest.mark.parametrize("moment", ["claim", "setup", "join", "running"])
def test_down_after_kill_9_of_the_controller_leaves_no_process(desk: Desk, moment: str) -> None:
    name = f"killed-{moment}"
    task = desk.task(name)
    if moment == "setup":
        task.write_text(task.read_text().replace("setup: echo", "setup: sleep 300 & sleep 300; echo"))
    words = {"claim": "to claim", "setup": "in setup", "join": "joining Ray", "running": "4 of 4 ranks running"}[moment]
    assert desk.run(*desk.up_args(task, "-d")).returncode == 0
    desk.until(name, lambda seen: words in seen["headline"] or seen["state"] == "running")
    os.kill(desk.controller(name), signal.SIGKILL)
    down = desk.run("down", name, "-y")
    assert down.returncode == 0, down.stderr
    assert desk.status(name)["state"] == "stopped"
    assert left_over(desk.home) == {}


def test_ctrl_c_ends_the_following_and_not_the_run(desk: Desk) -> None:
    up = desk.begin(*desk.up_args(desk.task("followed")))
    desk.until("followed", lambda seen: seen["state"] == "running")
    up.send_signal(signal.SIGINT)
    _, err = up.communicate(timeout=AMPLE_S)
    assert up.returncode == 130
    assert "nvlaunch watch followed" in err
    assert desk.status("followed")["state"] == "running"
    watch = desk.begin("watch", "followed")
    os.kill(desk.controller("followed"), signal.SIGKILL)
    desk.gate("followed").touch()
    _, err = watch.communicate(timeout=AMPLE_S)
    assert watch.returncode == 0, err
    assert desk.status("followed")["epoch"] == 1


def test_a_secret_reaches_the_ranks_and_is_found_nowhere_else(desk: Desk) -> None:
    body = f"[ $(printf %s $SECRET_WORD | md5sum | cut -c-8) = {md5(SECRET).hexdigest()[:8]} ] || exit 9; {WAIT}"
    task = desk.task("secretive", body=body)
    task.write_text(task.read_text().replace("  env | sort\n", "") + "secrets: {SECRET_WORD: null}\n")
    up = desk.begin(*desk.up_args(task, "--secret", "SECRET_WORD"))
    desk.until("secretive", lambda seen: seen["state"] == "running")
    holders = {
        pid: command
        for pid, command in processes(desk.home).items()
        if SECRET in Path(f"/proc/{pid}/environ").read_bytes() and "run.sh" not in command and "sleep" not in command
    }
    kept = {
        path.name: path.stat().st_mode & 0o777
        for path in desk.home.rglob("*")
        if path.is_file() and SECRET in path.read_bytes()
    }
    desk.gate("secretive").touch()
    out, err = up.communicate(timeout=AMPLE_S)
    assert up.returncode == 0, err
    assert holders == {}, "a process that is no rank has the secret in its environment"
    assert kept == {"secrets.json": 0o600}
    assert SECRET.decode() not in out + err
    assert not [path for path in desk.home.rglob("*") if path.is_file() and SECRET in path.read_bytes()]


def test_the_loop_in_the_foreground_ends_with_the_outcome(desk: Desk) -> None:
    up = desk.run(*desk.up_args(desk.task("ahead", body="exit 0"), "--foreground"))
    assert up.returncode == 0, up.stderr
    assert left_over(desk.home) == {}
