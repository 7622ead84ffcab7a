"""Checks in real processes on this machine: results, limits, and that nothing is left of them."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.core.checks.results import CheckedNode, CheckGroup, NodeVerdict
from launcher.core.model.checks import NodeCheck
from launcher.core.model.inventory import Access, Node, RackName
from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import RunId
from launcher.transport.checker import ShellChecker
from launcher.transport.local import LocalShell

NEVER = "sleep 600"


def nodes(count: int, **env: str) -> tuple[Node, ...]:
    return tuple(
        Node(name=NodeName(f"n{at}"), rack=RackName("r1"), access=Access(address=f"127.0.9.{at}"), gpus=2, env=env)
        for at in range(1, count + 1)
    )


def check(
    script: str,
    *,
    count: int = 1,
    limit: float = 20.0,
    lease: Path | None = None,
    stopped: Callable[[], bool] = lambda: False,
    idle: bool = False,
    beside: str | None = None,
    **env: str,
) -> tuple[CheckedNode, ...]:
    checker = ShellChecker(LocalShell(), () if lease is None else (str(lease),), shared=True)
    group = CheckGroup(
        name="before_return",
        check=NodeCheck(script=script, limit=limit),
        nodes=nodes(count, **env),
        by="me@here",
        idle=idle,
        beside=RunId(beside) if beside else None,
    )
    return checker.check(group, stopped)


def left(word: str) -> list[str]:
    """The processes with a word on their command line."""
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in found.splitlines() if word in line and "ps -eo" not in line]


def gone(word: str) -> bool:
    deadline = time.monotonic() + 15
    while left(word):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_each_node_of_a_group_has_its_rank_all_addresses_and_one_rendezvous() -> None:
    script = """
    echo "$NODE_RANK/$NNODES $NVLAUNCH_NODE_RANK $MASTER_ADDR:$MASTER_PORT" $NVLAUNCH_NODE_IPS >&2
    echo "$NVLAUNCH_NODE_NAME of" $NVLAUNCH_CHECK_NODES "$NVLAUNCH_RACK $NVLAUNCH_NUM_GPUS_PER_NODE" >&2
    echo 7.5
    """
    first, second = check(script, count=2)
    assert (first.verdict, first.number) == (NodeVerdict.GOOD, 7.5)
    port = first.tail[1].split()[2].split(":")[1]
    assert 29500 <= int(port) < 30500
    assert first.tail[1:] == (f"0/2 0 127.0.9.1:{port} 127.0.9.1 127.0.9.2", "n1 of n1 n2 r1 2")
    assert second.tail[1:] == (f"1/2 1 127.0.9.1:{port} 127.0.9.1 127.0.9.2", "n2 of n1 n2 r1 2")


@pytest.mark.parametrize(
    ("script", "verdict", "message"),
    [
        ("exit 1", NodeVerdict.BAD, "exit status 1"),
        ("echo broken >&2; exit 1", NodeVerdict.BAD, "exit status 1: broken"),
        ("exit 3", NodeVerdict.CANNOT_TELL, "exit status 3"),
        ("kill -9 $$", NodeVerdict.CANNOT_TELL, "exit status 137"),
        ("exec no-such-program-here", NodeVerdict.CANNOT_TELL, "the command is not found"),
        ("#!/usr/bin/env no-such-interpreter\n", NodeVerdict.CANNOT_TELL, "the command is not found"),
        ("#!/no/such/interpreter\n", NodeVerdict.CANNOT_TELL, "cannot start the check"),
    ],
)
def test_what_an_end_means(script: str, verdict: NodeVerdict, message: str) -> None:
    (found,) = check(script)
    assert found.verdict is verdict
    assert found.message.startswith(message)


def test_a_program_of_its_own_runs_by_its_first_line() -> None:
    (found,) = check("#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1:], 2 + 2, sep='\\n')\n")
    assert (found.verdict, found.number) == (NodeVerdict.GOOD, 4.0)


def test_output_is_bounded_and_the_number_is_that_of_the_last_line() -> None:
    (found,) = check("yes 123456789012345678901234567890 | head -c 5000000; echo; echo 42")
    assert found.number == 42.0
    assert len(found.tail) <= 10
    assert all(len(line) <= 200 for line in found.tail)


def test_values_of_secret_variables_are_hidden_and_none_is_on_a_command_line() -> None:
    (found,) = check(
        "echo token $HF_TOKEN $NCCL_DEBUG; ps -eo args | grep -c '[s]esame-22'; exit 1",
        HF_TOKEN="sesame-22",
        NCCL_DEBUG="info",
    )
    assert found.tail == ("token <hidden> info", "0")
    assert "sesame" not in found.message


def test_a_check_that_takes_too_long_is_killed_with_its_daemons() -> None:
    (found,) = check(f"(setsid {NEVER}7 &) ; env -i {NEVER}7", limit=0.5)
    assert (found.verdict, found.timed_out) == (NodeVerdict.CANNOT_TELL, True)
    assert found.message == "it did not end within its time limit"
    assert gone(f"{NEVER}7")


def test_a_daemon_that_holds_the_output_open_does_not_delay_the_end() -> None:
    begun = time.monotonic()
    (found,) = check(f"(setsid {NEVER}6 &) ; echo 5")
    assert found.number == 5.0
    assert time.monotonic() - begun < 10
    assert gone(f"{NEVER}6")


def test_a_stopped_check_ends_on_all_nodes() -> None:
    stop = threading.Event()
    timer = threading.Timer(0.7, stop.set)
    timer.start()
    found = check(f"{NEVER}5", count=2, stopped=stop.is_set)
    assert [one.message for one in found] == ["it was stopped"] * 2
    assert gone(f"{NEVER}5")


def test_nothing_is_left_when_the_launcher_is_killed(tmp_path: Path) -> None:
    program = (
        f"from tests.unit.transport.test_checker import check\ncheck('touch {tmp_path}/begun; {NEVER}4', count=2)\n"
    )
    root = Path(__file__).parents[3]
    launcher = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(root)})
    deadline = time.monotonic() + 30
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    assert gone(f"{NEVER}4")


def test_a_node_whose_lease_is_held_is_not_checked_and_the_others_do_not_wait_for_it(tmp_path: Path) -> None:
    lease = tmp_path / "lease"
    lease.write_text("run `vla` (vla-1) of ann@here since today\n")
    with lease.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        begun = time.monotonic()
        found = check(f"{NEVER}3", lease=lease)
        assert found[0].message == "in use: run `vla` (vla-1) of ann@here since today"
        assert time.monotonic() - begun < 10
        (beside,) = check("echo 1", lease=lease, beside="vla-1")  # that run waits for its node
        assert beside.verdict is NodeVerdict.GOOD


def test_a_check_holds_the_lease_under_its_name_until_its_end(tmp_path: Path) -> None:
    lease = tmp_path / "lease"
    (found,) = check(f"cat {lease} >&2; flock -n {lease} true || echo 9", lease=lease)
    assert found.number == 9.0
    assert found.tail[-1].startswith("check `before_return` of me@here since 20")
    with lease.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_an_idle_check_takes_no_lease_and_ends_as_soon_as_a_run_takes_it(tmp_path: Path) -> None:
    lease, begun = tmp_path / "lease", tmp_path / "begun"
    lease.write_text("run `vla` (vla-1) of ann@here\n")
    found: list[CheckedNode] = []
    thread = threading.Thread(
        target=lambda: found.extend(check(f"flock -n {lease} touch {begun}; {NEVER}2", lease=lease, idle=True))
    )
    thread.start()
    deadline = time.monotonic() + 20
    while not begun.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with lease.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        thread.join(15)
        assert not thread.is_alive()
    assert found[0].message == "stopped, since the node is wanted: run `vla` (vla-1) of ann@here"
    assert gone(f"{NEVER}2")
