"""One run on two racks of two local nodes, through all that can be done to it and all that can happen to it.

The tests are a story: each leaves the run as the next one finds it.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.control.timing import PLACE_S
from launcher.core.model.actions import (
    Acquire,
    Kill,
    Level,
    Release,
    Reserve,
    Signal,
    Start,
    StartHead,
    Unreserve,
    Verify,
)
from launcher.core.model.observation import GroupState, HeadSeen, Phase, Seen, Sighting, Unseen
from launcher.core.model.receipt import Result
from launcher.core.model.run import GangName, RunId, Slot
from launcher.core.model.task import Group, TopologyRule
from launcher.ports import LogName
from tests.real import local
from tests.real.local import REASON, Stand, agent, head, ok, rank, runs

SECRET = f"a-value-that-must-not-be-found-{os.getpid()}"

# Attempt 1 ends at once, rank 1 with a failure. Later ones last, deaf to TERM, with a grandchild that hides: it has no
# parent, no environment, and a session of its own.
HIDDEN = f"sleep {1_000_000 + os.getpid()}"
SCRIPT = f"""
env | sort
yes | head -n 1 > /dev/null; echo "yes ended with ${{PIPESTATUS[0]}}"
echo "secret has ${{#TOKEN}} characters"
if [ "$NVLAUNCH_ATTEMPT" = 1 ]; then
  [ "$NODE_RANK" = 1 ] && {{ echo "it had $TOKEN"; echo "this is $(printf "\\377") why" >&2; exit 3; }}
  exit 0
fi
(setsid env -i {HIDDEN} &)
trap 'echo heard TERM' TERM
while :; do sleep 0.2; done
"""

SETUP = """
env | sort
yes | head -n 1 > /dev/null; echo "yes ended with ${PIPESTATUS[0]}"
"""


@pytest.fixture(scope="module")
def foreign() -> Iterator[subprocess.Popen[bytes]]:
    """A Ray head of the same user, started by hand on Ray's own ports: nothing that we do may touch it."""
    if _listens(6379):
        pytest.fail("somebody's Ray has the default ports of this machine already")
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:
        argv = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=0"]
        argv += ["--include-dashboard=false", "--node-ip-address=127.0.0.1", f"--temp-dir={folder}"]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            _poll(lambda: _listens(6379), 60)
            yield process
            process.terminate()


@pytest.fixture(scope="module")
def stand(home: Path, foreign: object) -> Iterator[Stand]:
    """The run, its slices reserved, no rank started."""
    group = Group(name="main", topology=TopologyRule(), gpus=4, run=SCRIPT, setup=SETUP, envs={"STEPS": "7"})
    fleet = local.inventory(home, racks=2, nodes=2)
    run = local.place(fleet, f"story-{os.getpid()}", group, secrets=("TOKEN",))
    secrets = home / "runs" / run.id / "secrets.json"
    secrets.parent.mkdir(parents=True)
    secrets.write_text(f'{{"TOKEN": "{SECRET}"}}')
    stand = Stand(home, run)
    try:
        stand.bring_up()
        for part in run.placement.slices:
            ok(stand.nodes.perform(run, Reserve(reason=REASON, slice=part.key)))
        _until_created(stand)
        yield stand
    finally:
        for answer in stand.take_down():
            ok(answer)
        stand.nodes.close()


def test_each_slice_is_in_its_rack_and_each_bundle_on_its_slot(stand: Stand) -> None:
    for part in stand.run.placement.slices:
        answer = ok(stand.nodes.perform(stand.run, Verify(reason=REASON, slice=part.key)))
        found = [(bundle.slot, bundle.domain) for bundle in answer.bundles]
        assert found == [(stand.label(slot), part.domain) for slot in stand.slots if slot.node in part.nodes]


def test_a_slice_that_was_given_up_is_gone_at_once_and_can_be_reserved_again(stand: Stand) -> None:
    key = stand.run.placement.slices[1].key
    ok(stand.nodes.perform(stand.run, Unreserve(reason=REASON, slice=key)))
    left = [group for group in head(stand.nodes.look(stand.run)).groups if group.state is not GroupState.REMOVED]
    assert [group.slice for group in left] == [stand.run.placement.slices[0].key]
    ok(stand.nodes.perform(stand.run, Reserve(reason=REASON, slice=key)))
    _until_created(stand)


def test_ranks_end_with_their_codes_and_the_failed_one_shows_why(stand: Stand) -> None:
    _start(stand, 1)
    seen = stand.until(lambda seen: all((r := rank(seen, s, 1)) and not r.running for s in stand.slots))
    reports = [rank(seen, slot, 1) for slot in stand.slots]
    assert [report.exit_code for report in reports if report] == [0, 3, 0, 0]
    assert [report.tail[-2:] for report in reports if report] == [(), ("it had <hidden>", "this is � why"), (), ()]
    ok(_start(stand, 1))
    assert all(not runs(stand.nodes.look(stand.run), slot, 1) for slot in stand.slots), "an attempt begins once"


def test_a_rank_sees_its_variables_and_nothing_of_rays(stand: Stand) -> None:
    lines = _log(stand, stand.slots[2], 1)
    assert "yes ended with 141" in lines
    variables = dict(line.partition("=")[::2] for line in lines if "=" in line)
    assert variables["NVLAUNCH_NODE_RANK"] == variables["SKYPILOT_NODE_RANK"] == variables["NODE_RANK"] == "2"
    assert variables["NVLAUNCH_SLICE"] == "1"
    assert variables["NVLAUNCH_SLICE_RANK"] == "0"
    assert variables["NVLAUNCH_RACK"] == "r2"
    assert variables["MASTER_ADDR"] == "127.0.41.1"
    assert variables["STEPS"] == "7"
    assert variables["PWD"] == str(stand.home / "nodes" / "r2-n1" / stand.run.id / "workdir")
    assert not [name for name in variables if name.startswith(("RAY_", "PYTHON"))]
    # Where the launcher lives in a virtual environment, its `pip` must not be the task's.
    assert sys.prefix == sys.base_prefix or str(Path(sys.executable).parent) not in variables["PATH"].split(":")


def test_setup_runs_once_a_node_in_the_workdir_with_its_variables(stand: Stand) -> None:
    for slot in stand.slots:
        part = stand.nodes.read_log(stand.run, slot.node, LogName(), 0)
        lines = part.data.decode().splitlines()
        rank = stand.label(slot).partition("-")[2]
        assert lines.count(f"SKYPILOT_SETUP_NODE_RANK={rank}") == 1
        assert f"PWD={stand.home / 'nodes' / slot.node / stand.run.id / 'workdir'}" in lines
        assert not [line for line in lines if line.startswith(("CUDA_VISIBLE_DEVICES=", "RAY_"))]
        assert "yes ended with 141" in lines, "a broken pipe ends a program of the user's as in any shell"


def test_a_secret_reaches_the_ranks_and_is_found_nowhere_else(stand: Stand) -> None:
    assert f"secret has {len(SECRET)} characters" in _log(stand, stand.slots[0], 1)
    # Setup and ranks print or hold it only if the user's own program does: this one prints its environment.
    holders = [path for path in stand.home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert {path.name for path in holders} == {"secrets.json", "log", "provision.log"}
    memory = [path for path in Path("/dev/shm").glob("nvl-*/secrets.json") if SECRET in path.read_text()]
    assert len(memory) == len(stand.slots)
    assert {path.stat().st_mode & 0o777 for path in memory} == {0o600}
    assert {path.parent.stat().st_mode & 0o777 for path in memory} == {0o700}
    commands = [_command(pid) for pid in _all_pids()]
    assert not [command for command in commands if SECRET.encode() in command]


def test_the_stop_signal_reaches_the_program(stand: Stand) -> None:
    _start_and_run(stand, 2)
    slot = stand.slots[0]
    ok(stand.nodes.perform(stand.run, Signal(reason=REASON, node=slot.node, signal="TERM")))
    _poll(lambda: "heard TERM" in _log(stand, slot, 2), 10)
    _poll(lambda: len(_hidden()) == len(stand.slots) - 1, 10)
    assert runs(stand.nodes.look(stand.run), slot, 2)


def test_a_kill_of_ranks_leaves_nothing_of_them_and_all_of_ray(stand: Stand) -> None:
    assert _hidden()
    for slot in stand.slots:
        assert _kill(stand, slot, Level.RANK, attempt=2).result is Result.KILLED
    assert _hidden() == []
    seen = stand.nodes.look(stand.run)
    assert [agent(seen, slot.node).ray.phase for slot in stand.slots] == [Phase.RUNNING] * len(stand.slots)
    _start_and_run(stand, 3)
    assert _kill(stand, stand.slots[0], Level.RANK, attempt=2).result is Result.KILLED
    assert runs(stand.nodes.look(stand.run), stand.slots[0], 3), "an older attempt's kill spares the newer rank"


def test_ranks_outlive_a_head_that_is_killed_whole(stand: Stand) -> None:
    before = _rank_pids(stand)
    (first, *others) = _pids("NVLAUNCH_AGENT", f"{stand.run.id}:@head")
    assert not others
    for pid in (first, *_marked(f"{stand.run.id}:@head:")):
        _kill_process(pid)
    stand.until(lambda seen: isinstance(seen.head, HeadSeen) and seen.head.head is None, 10)
    ok(stand.nodes.perform(stand.run, StartHead(reason=REASON)))
    _until_created(stand)
    assert _rank_pids(stand) == before
    assert all(runs(stand.nodes.look(stand.run), slot, 3) for slot in stand.slots)


def test_a_killed_raylet_is_seen_and_its_slot_can_be_taken_again(stand: Stand) -> None:
    lost = stand.slots[3]
    for pid in _marked(f"{stand.run.id}:{lost.node}:0"):
        if b"raylet/raylet" in _command(pid):
            _kill_process(pid)
    seen = stand.until(lambda seen: agent(seen, lost.node).ray.phase is Phase.FAILED, 10)
    assert agent(seen, lost.node).ray.exit_code == 1
    assert _kill(stand, lost, Level.GENERATION).result is Result.KILLED
    assert not runs(stand.nodes.look(stand.run), lost, 3)
    assert len(_hidden()) == len(stand.slots) - 1
    healed = replace(lost, generation=1)
    stand.join(healed)
    stand.until(lambda seen: (stand.label(healed), 1) in local.alive(seen))
    stand.slots = (*stand.slots[:3], healed)
    _until_created(stand)
    for slot in stand.slots:
        _kill(stand, slot, Level.RANK, attempt=3)
    _start_and_run(stand, 4)


def test_a_agent_that_hangs_is_unseen_and_can_be_ended_all_the_same(stand: Stand) -> None:
    node = stand.slots[2].node
    (pid,) = _pids("NVLAUNCH_AGENT", f"{stand.run.id}:{node}")
    os.kill(pid, signal.SIGSTOP)
    seen = stand.until(lambda seen: isinstance(seen.nodes[node], Unseen), 10)
    assert all(isinstance(view, Seen) for name, view in seen.nodes.items() if name != node)
    os.kill(pid, signal.SIGCONT)
    stand.until(lambda seen: runs(seen, stand.slots[2], 4))


def test_a_killed_agent_takes_its_raylet_and_rank_along(stand: Stand) -> None:
    slot = stand.slots[1]
    (pid,) = _pids("NVLAUNCH_AGENT", f"{stand.run.id}:{slot.node}")
    _kill_process(pid)
    mark = f"{stand.run.id}:{slot.node}:"
    _poll(lambda: not _marked(mark), 20)
    view = stand.nodes.look(stand.run).nodes[slot.node]
    assert isinstance(view, Seen)
    assert view.agent is None
    assert ok(stand.nodes.perform(stand.run, Release(reason=REASON, node=slot.node))).result is Result.KILLED


def test_a_node_is_held_against_others_and_free_after_the_end(stand: Stand, foreign: subprocess.Popen[bytes]) -> None:
    other = replace(stand.run, id=RunId(f"other-{os.getpid()}"))
    acquire = Acquire(reason=REASON, node=stand.slots[0].node)
    held = stand.nodes.perform(other, acquire)
    assert held.result is Result.HELD
    assert f"run `job` ({stand.run.id}) of somebody@here" in held.message
    assert [answer.result for answer in stand.take_down()] == [Result.KILLED] * 5
    assert _marked(f"{stand.run.id}:") == []
    assert _pids("NVLAUNCH_AGENT", stand.run.id) == []
    assert _hidden() == []
    assert not [path for path in Path("/dev/shm").glob("nvl-*/secrets.json") if SECRET in path.read_text()]
    assert ok(stand.nodes.perform(other, acquire))
    assert ok(stand.nodes.perform(other, Release(reason=REASON, node=acquire.node))).result is Result.KILLED
    assert foreign.poll() is None
    assert _listens(6379)


def _until_created(stand: Stand) -> None:
    """See every group created; one that Ray does not place on live slots is reserved anew, as the kernel does."""
    count = len(stand.run.placement.slices)

    def placed(seen: Sighting) -> bool:
        return len(head(seen).groups) == count and not _unplaced(seen)

    try:
        stand.until(placed, PLACE_S)
    except AssertionError:
        for key in _unplaced(stand.nodes.look(stand.run)):
            ok(stand.nodes.perform(stand.run, Unreserve(reason=REASON, slice=key)))
            ok(stand.nodes.perform(stand.run, Reserve(reason=REASON, slice=key)))
        stand.until(placed)


def _unplaced(seen: Sighting) -> list[str]:
    return [group.slice for group in head(seen).groups if group.state is not GroupState.CREATED]


def _start(stand: Stand, attempt: int):  # type: ignore[no-untyped-def]
    action = Start(reason=REASON, gang=GangName("run"), attempt=attempt, restarts=attempt - 1, slots=stand.slots)
    return ok(stand.nodes.perform(stand.run, action))


def _start_and_run(stand: Stand, attempt: int) -> None:
    _start(stand, attempt)
    stand.until(lambda seen: all(runs(seen, slot, attempt) for slot in stand.slots))
    _poll(lambda: len(_hidden()) == len(stand.slots), 20)


def _kill(stand: Stand, slot: Slot, level: Level, attempt: int = 0):  # type: ignore[no-untyped-def]
    action = Kill(
        reason=REASON,
        node=slot.node,
        level=level,
        member=slot.member,
        gang=GangName("run"),
        attempt=attempt,
        generation=slot.generation,
    )
    return stand.nodes.perform(stand.run, action)


def _log(stand: Stand, slot: Slot, attempt: int) -> list[str]:
    part = stand.nodes.read_log(stand.run, slot.node, LogName(member=slot.member, attempt=attempt), 0)
    return part.data.decode(errors="replace").splitlines()


def _rank_pids(stand: Stand) -> list[str]:
    folders = [stand.home / "nodes" / s.node / stand.run.id / "ranks" / stand.label(s) / "3" for s in stand.slots]
    return [(folder / "state.json").read_text() for folder in folders]


def _hidden() -> list[int]:
    """The children that hide from everything but their adoption."""
    return [pid for pid in _all_pids() if _command(pid) == HIDDEN.replace(" ", "\0").encode() + b"\0"]


def _marked(prefix: str) -> list[int]:
    return _pids("NVLAUNCH_MARK", prefix)


def _pids(name: str, prefix: str) -> list[int]:
    wanted = f"{name}={prefix}".encode()
    found = []
    for path in _proc("environ"):
        with contextlib.suppress(OSError):
            if any(item.startswith(wanted) for item in path.read_bytes().split(b"\0")):
                found.append(int(path.parent.name))
    return found


def _all_pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _proc(name: str) -> list[Path]:
    return [Path("/proc") / str(pid) / name for pid in _all_pids() if (Path("/proc") / str(pid) / name).exists()]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _kill_process(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _poll(holds: Callable[[], bool], limit: float) -> None:
    deadline = time.monotonic() + limit
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)
