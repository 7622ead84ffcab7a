"""The main job as a person runs it: the command, a detached controller, real Ray on local racks."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path

import pytest

from tests.desk import AMPLE_S, Desk, files_of

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
topology: {{slices: {slices}, nodes_per_slice: 2}}
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


def task(desk: Desk, name: str, *, body: str = WAIT, restarts: int = 0, slices: int = 1) -> Path:
    """A task of slices of two nodes whose ranks do `body`; each node more costs seconds."""
    return desk.task(name, TASK.format(name=name, body=body, restarts=restarts, slices=slices))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    made = Desk(folder, INVENTORY.format(home=folder), SECRET_WORD=SECRET.decode())
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
    os.killpg(head.pid, signal.SIGKILL)
    head.wait()
    subprocess.run(["rm", "-rf", temp], check=False)
    assert alive, "somebody else's Ray was killed"


def left_over(home: Path) -> dict[int, str]:
    """What is left of the runs of a home, once the controllers had a moment to leave."""
    deadline = time.monotonic() + 20.0
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
    file = task(desk, "main-job", slices=2)
    up = desk.begin(*desk.up_args(file))
    seen = desk.until("main-job", lambda seen: seen["state"] == "running")
    assert [(rank["rank"], rank["slice"], rank["rack"], rank["node"], rank["state"]) for rank in seen["ranks"]] == [
        (0, 0, "r1", "a1", "running"),
        (1, 0, "r1", "a2", "running"),
        (2, 1, "r2", "b1", "running"),
        (3, 1, "r2", "b2", "running"),
    ]
    events = desk.run("events", "main-job").stdout
    for key, slots, rack in (("main.s0", "main-[0-1]", "r1"), ("main.s1", "main-[2-3]", "r2")):
        assert f"verified the reservation of {key}: Ray has {slots} in {rack}" in events
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
    body = 'if [ "$NODE_RANK" = 1 ]; then echo the reason why; exit 3; fi; sleep 300'
    up = desk.run(*desk.up_args(task(desk, "fails", body=body, restarts=1)))
    assert up.returncode == 1
    assert "main/1 on a2 exited with 3; restart 1 of 1" in up.stderr
    assert "the reason why" in up.stderr
    assert "main/1 on a2 exited with 3 after 1 restart" in up.stderr
    seen = desk.status("fails")
    assert (seen["state"], seen["restarts"], seen["attempt"]) == ("failed", 1, 2)
    assert seen["ranks"][1]["exit_code"] == 3
    first = desk.run("logs", "fails", "--rank", "1", "--attempt", "1")
    assert (first.returncode, first.stdout.splitlines()[-1]) == (0, "the reason why"), first.stderr
    third = desk.run("logs", "fails", "--rank", "1", "--attempt", "3")
    assert (third.returncode, third.stdout) == (4, "")
    assert "main/1: a2 has no log of attempt 3" in third.stderr
    assert "the reason why" in desk.run("events", "fails").stdout
    assert left_over(desk.home) == {}


@pytest.mark.parametrize("moment", ["acquire", "setup", "join", "running"])
def test_down_after_kill_9_of_the_controller_leaves_no_process(desk: Desk, moment: str) -> None:
    name = f"killed-{moment}"
    file = task(desk, name)
    if moment == "setup":
        file.write_text(file.read_text().replace("setup: echo", "setup: sleep 300 & sleep 300; echo"))
    stages = {"acquire": "waiting for a lease", "setup": "in setup", "join": "joining Ray"}
    words = stages.get(moment, "2 of 2 ranks running")
    up = desk.begin(*desk.up_args(file, "-d"))  # which returns when all is claimed
    desk.until(name, lambda seen: words in seen["status_message"] or seen["state"] == "running")
    os.kill(desk.controller(name), signal.SIGKILL)
    down = desk.run("down", name, "-y")
    assert down.returncode == 0, down.stderr
    up.communicate(timeout=AMPLE_S)
    assert desk.status(name)["state"] == "stopped"
    assert left_over(desk.home) == {}


def test_ctrl_c_ends_the_following_and_not_the_run(desk: Desk) -> None:
    up = desk.begin(*desk.up_args(task(desk, "followed")))
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
    assert desk.status("followed")["attempt"] == 1


def test_a_secret_reaches_the_ranks_and_is_found_nowhere_else(desk: Desk) -> None:
    body = f"[ $(printf %s $SECRET_WORD | md5sum | cut -c-8) = {md5(SECRET).hexdigest()[:8]} ] || exit 9; {WAIT}"
    file = task(desk, "secretive", body=body)
    file.write_text(file.read_text().replace("  env | sort\n", "") + "secrets: {SECRET_WORD: null}\n")
    up = desk.begin(*desk.up_args(file, "--secret", "SECRET_WORD"))
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


def test_a_secret_that_the_program_prints_comes_no_further_than_its_log(desk: Desk) -> None:
    file = task(desk, "blab", body='echo "it is $SECRET_WORD"; exit 7')
    file.write_text(file.read_text().replace("  env | sort\n", "") + "secrets: {SECRET_WORD: null}\n")
    up = desk.run(*desk.up_args(file, "--secret", "SECRET_WORD"))
    assert up.returncode == 1
    assert "it is <hidden>" in up.stdout + up.stderr
    holders = [path for path in desk.home.rglob("*") if path.is_file() and SECRET in path.read_bytes()]
    assert {path.name for path in holders} == {"log"}
    assert _reported(desk, "known")["logs/main/0.log"] == b"it is <hidden>\n"
    del desk.env["SECRET_WORD"]
    try:
        unknown = _reported(desk, "unknown")
    finally:
        desk.env["SECRET_WORD"] = SECRET.decode()
    assert [name for name in unknown if name.startswith("logs/")] == ["logs/unread.txt"]
    assert b"SECRET_WORD" in unknown["logs/unread.txt"]


def _reported(desk: Desk, name: str) -> dict[str, bytes]:
    """What a report of the run holds."""
    path = desk.folder / f"{name}.tar.gz"
    assert desk.run("report", "blab", "-o", str(path)).returncode == 0
    return files_of(path)


def test_the_loop_in_the_foreground_ends_with_the_outcome(desk: Desk) -> None:
    up = desk.run(*desk.up_args(task(desk, "ahead", body="exit 0"), "--foreground"))
    assert up.returncode == 0, up.stderr
    assert left_over(desk.home) == {}
