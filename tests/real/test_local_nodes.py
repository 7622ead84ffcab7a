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

from launcher.core.control.startup import PLACE_GRACE
from launcher.core.model.actions import (
    Claim,
    Level,
    Reserve,
    Result,
    Signal,
    Start,
    StartHead,
    Sweep,
    Unclaim,
    Unreserve,
    Verify,
)
from launcher.core.model.observation import GroupState, HeadSeen, Phase, Seen, Sighting, Unseen
from launcher.core.model.run import RunId
from launcher.core.model.slots import GangName, Seat
from launcher.core.model.task import Group, TopologyRule
from launcher.ports import LogName
from tests.real import local
from tests.real.local import REASON, Stand, head, keeper, ok, rank, runs

SECRET = f"a-value-that-must-not-be-found-{os.getpid()}"

# Epoch 1 ends at once, rank 1 with a failure. Later ones last, deaf to TERM, with a grandchild that hides: it has no
# parent, no environment, and a session of its own.
HIDDEN = f"sleep {1_000_000 + os.getpid()}"
SCRIPT = f"""
env | sort
yes | head -n 1 > /dev/null; echo "yes ended with ${{PIPESTATUS[0]}}"
echo "secret has ${{#TOKEN}} characters"
if [ "$NVLAUNCH_EPOCH" = 1 ]; then
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
            ok(stand.nodes.reserve(run, Reserve(reason=REASON, slice=part.key)))
        _until_created(stand)
        yield stand
    finally:
        for answer in stand.take_down():
            ok(answer)
        stand.nodes.close()


def test_each_slice_is_in_its_rack_and_each_bundle_on_its_seat(stand: Stand) -> None:
    for part in stand.run.placement.slices:
        answer = ok(stand.nodes.verify(stand.run, Verify(reason=REASON, slice=part.key)))
        found = [(bundle.seat, bundle.domain) for bundle in answer.bundles]
        assert found == [(stand.label(seat), part.domain) for seat in stand.seats if seat.node in part.nodes]


def test_a_slice_that_was_given_up_is_gone_at_once_and_can_be_reserved_again(stand: Stand) -> None:
    key = stand.run.placement.slices[1].key
    ok(stand.nodes.unreserve(stand.run, Unreserve(reason=REASON, slice=key)))
    left = [group for group in head(stand.nodes.look(stand.run)).groups if group.state is not GroupState.REMOVED]
    assert [group.slice for group in left] == [stand.run.placement.slices[0].key]
    ok(stand.nodes.reserve(stand.run, Reserve(reason=REASON, slice=key)))
    _until_created(stand)


def test_ranks_end_with_their_codes_and_the_failed_one_shows_why(stand: Stand) -> None:
    _start(stand, 1)
    seen = stand.until(lambda seen: all((r := rank(seen, s, 1)) and not r.running for s in stand.seats))
    reports = [rank(seen, seat, 1) for seat in stand.seats]
    assert [report.exit_code for report in reports if report] == [0, 3, 0, 0]
    assert [report.tail[-2:] for report in reports if report] == [(), ("it had <hidden>", "this is � why"), (), ()]
    ok(_start(stand, 1))
    assert all(not runs(stand.nodes.look(stand.run), seat, 1) for seat in stand.seats), "an epoch begins once"


def test_a_rank_sees_its_variables_and_nothing_of_rays(stand: Stand) -> None:
    lines = _log(stand, stand.seats[2], 1)
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
    for seat in stand.seats:
        part = stand.nodes.read_log(stand.run, seat.node, LogName(), 0)
        lines = part.data.decode().splitlines()
        rank = stand.label(seat).partition("-")[2]
        assert lines.count(f"SKYPILOT_SETUP_NODE_RANK={rank}") == 1
        assert f"PWD={stand.home / 'nodes' / seat.node / stand.run.id / 'workdir'}" in lines
        assert not [line for line in lines if line.startswith(("CUDA_VISIBLE_DEVICES=", "RAY_"))]
        assert "yes ended with 141" in lines, "a broken pipe ends a program of the user's as in any shell"


def test_a_secret_reaches_the_ranks_and_is_found_nowhere_else(stand: Stand) -> None:
    assert f"secret has {len(SECRET)} characters" in _log(stand, stand.seats[0], 1)
    # Setup and ranks print or hold it only if the user's own program does: this one prints its environment.
    holders = [path for path in stand.home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert {path.name for path in holders} == {"secrets.json", "log", "provision.log"}
    memory = [path for path in Path("/dev/shm").glob("nvl-*/secrets.json") if SECRET in path.read_text()]
    assert len(memory) == len(stand.seats)
    assert {path.stat().st_mode & 0o777 for path in memory} == {0o600}
    assert {path.parent.stat().st_mode & 0o777 for path in memory} == {0o700}
    commands = [path.read_bytes() for path in _proc("cmdline")]
    assert not [command for command in commands if SECRET.encode() in command]


def test_the_stop_signal_reaches_the_program(stand: Stand) -> None:
    _start_and_run(stand, 2)
    seat = stand.seats[0]
    ok(stand.nodes.signal(stand.run, Signal(reason=REASON, node=seat.node, signal="TERM")))
    _poll(lambda: "heard TERM" in _log(stand, seat, 2), 10)
    _poll(lambda: len(_hidden()) == len(stand.seats) - 1, 10)
    assert runs(stand.nodes.look(stand.run), seat, 2)


def test_a_sweep_of_ranks_leaves_nothing_of_them_and_all_of_ray(stand: Stand) -> None:
    assert _hidden()
    for seat in stand.seats:
        assert _sweep(stand, seat, Level.RANK, epoch=2).result is Result.KILLED
    assert _hidden() == []
    seen = stand.nodes.look(stand.run)
    assert [keeper(seen, seat.node).ray.phase for seat in stand.seats] == [Phase.RUNNING] * len(stand.seats)
    _start_and_run(stand, 3)
    assert _sweep(stand, stand.seats[0], Level.RANK, epoch=2).result is Result.KILLED
    assert runs(stand.nodes.look(stand.run), stand.seats[0], 3), "an older epoch's sweep spares the newer rank"


def test_ranks_outlive_a_head_that_is_killed_whole(stand: Stand) -> None:
    before = _rank_pids(stand)
    (first, *others) = _pids("NVLAUNCH_KEEPER", f"{stand.run.id}:@head")
    assert not others
    for pid in (first, *_marked(f"{stand.run.id}:@head:")):
        _kill(pid)
    stand.until(lambda seen: isinstance(seen.head, HeadSeen) and seen.head.head is None, 10)
    ok(stand.nodes.start_head(stand.run, StartHead(reason=REASON)))
    _until_created(stand)
    assert _rank_pids(stand) == before
    assert all(runs(stand.nodes.look(stand.run), seat, 3) for seat in stand.seats)


def test_a_killed_raylet_is_seen_and_its_seat_can_be_taken_again(stand: Stand) -> None:
    lost = stand.seats[3]
    for pid in _marked(f"{stand.run.id}:{lost.node}:0"):
        if b"raylet/raylet" in _command(pid):
            _kill(pid)
    seen = stand.until(lambda seen: keeper(seen, lost.node).ray.phase is Phase.FAILED, 10)
    assert keeper(seen, lost.node).ray.exit_code == 1
    assert _sweep(stand, lost, Level.GENERATION).result is Result.KILLED
    assert not runs(stand.nodes.look(stand.run), lost, 3)
    assert len(_hidden()) == len(stand.seats) - 1
    healed = replace(lost, generation=1)
    stand.join(healed)
    stand.until(lambda seen: (stand.label(healed), 1) in local.alive(seen))
    stand.seats = (*stand.seats[:3], healed)
    _until_created(stand)
    for seat in stand.seats:
        _sweep(stand, seat, Level.RANK, epoch=3)
    _start_and_run(stand, 4)


def test_a_keeper_that_hangs_is_unseen_and_can_be_ended_all_the_same(stand: Stand) -> None:
    node = stand.seats[2].node
    (pid,) = _pids("NVLAUNCH_KEEPER", f"{stand.run.id}:{node}")
    os.kill(pid, signal.SIGSTOP)
    seen = stand.until(lambda seen: isinstance(seen.nodes[node], Unseen), 10)
    assert all(isinstance(view, Seen) for name, view in seen.nodes.items() if name != node)
    os.kill(pid, signal.SIGCONT)
    stand.until(lambda seen: runs(seen, stand.seats[2], 4))


def test_a_killed_keeper_takes_its_raylet_and_rank_along(stand: Stand) -> None:
    seat = stand.seats[1]
    (pid,) = _pids("NVLAUNCH_KEEPER", f"{stand.run.id}:{seat.node}")
    _kill(pid)
    mark = f"{stand.run.id}:{seat.node}:"
    _poll(lambda: not _marked(mark), 20)
    view = stand.nodes.look(stand.run).nodes[seat.node]
    assert isinstance(view, Seen)
    assert view.keeper is None
    assert ok(stand.nodes.unclaim(stand.run, Unclaim(reason=REASON, node=seat.node))).result is Result.KILLED


def test_a_node_is_held_against_others_and_free_after_the_end(stand: Stand, foreign: subprocess.Popen[bytes]) -> None:
    other = replace(stand.run, id=RunId(f"other-{os.getpid()}"))
    claim = Claim(reason=REASON, node=stand.seats[0].node)
    held = stand.nodes.claim(other, claim)
    assert held.result is Result.HELD
    assert f"run `job` ({stand.run.id}) of somebody@here" in held.words
    assert [answer.result for answer in stand.take_down()] == [Result.KILLED] * 5
    assert _marked(f"{stand.run.id}:") == []
    assert _pids("NVLAUNCH_KEEPER", stand.run.id) == []
    assert _hidden() == []
    assert not [path for path in Path("/dev/shm").glob("nvl-*/secrets.json") if SECRET in path.read_text()]
    assert ok(stand.nodes.claim(other, claim))
    assert ok(stand.nodes.unclaim(other, Unclaim(reason=REASON, node=claim.node))).result is Result.KILLED
    assert foreign.poll() is None
    assert _listens(6379)


def _until_created(stand: Stand) -> None:
    """See every group created; one that Ray does not place on live seats is reserved anew, as the kernel does."""
    count = len(stand.run.placement.slices)

    def placed(seen: Sighting) -> bool:
        return len(head(seen).groups) == count and not _unplaced(seen)

    try:
        stand.until(placed, PLACE_GRACE)
    except AssertionError:
        for key in _unplaced(stand.nodes.look(stand.run)):
            ok(stand.nodes.unreserve(stand.run, Unreserve(reason=REASON, slice=key)))
            ok(stand.nodes.reserve(stand.run, Reserve(reason=REASON, slice=key)))
        stand.until(placed)


def _unplaced(seen: Sighting) -> list[str]:
    return [group.slice for group in head(seen).groups if group.state is not GroupState.CREATED]


def _start(stand: Stand, epoch: int):  # type: ignore[no-untyped-def]
    action = Start(reason=REASON, gang=GangName("run"), epoch=epoch, restarts=epoch - 1, seats=stand.seats)
    return ok(stand.nodes.start(stand.run, action))


def _start_and_run(stand: Stand, epoch: int) -> None:
    _start(stand, epoch)
    stand.until(lambda seen: all(runs(seen, seat, epoch) for seat in stand.seats))
    _poll(lambda: len(_hidden()) == len(stand.seats), 20)


def _sweep(stand: Stand, seat: Seat, level: Level, epoch: int = 0):  # type: ignore[no-untyped-def]
    action = Sweep(
        reason=REASON,
        node=seat.node,
        level=level,
        member=seat.member,
        gang=GangName("run"),
        epoch=epoch,
        generation=seat.generation,
    )
    return stand.nodes.sweep(stand.run, action)


def _log(stand: Stand, seat: Seat, epoch: int) -> list[str]:
    part = stand.nodes.read_log(stand.run, seat.node, LogName(member=seat.member, epoch=epoch), 0)
    return part.data.decode(errors="replace").splitlines()


def _rank_pids(stand: Stand) -> list[str]:
    folders = [stand.home / "nodes" / s.node / stand.run.id / "ranks" / stand.label(s) / "3" for s in stand.seats]
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


def _kill(pid: int) -> None:
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
