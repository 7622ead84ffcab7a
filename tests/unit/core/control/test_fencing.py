"""Kills that do not succeed: a stranger on the GPUs of a slot, and what cannot be killed."""

import importlib
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from launcher.core.control.reconcile import Decision
from launcher.core.model.actions import Kill, PowerOff, Result
from launcher.core.model.observation import Phase, Step, Symptom
from launcher.core.model.run import MemberName, RunState
from launcher.core.model.task import OnNoSpare, RecoveryPolicy
from tests.situations import PATIENT, Situation, kinds, make_run, name

gpus = importlib.import_module("launcher.runtime.gpus")

LOST, OTHER, SPARE = name(1, 2), name(1, 1), name(1, 3)
STRANGE = "not free: `python` (pid 4711, of ann) computes on GPU 2"


def lost(*, spares: int = 1, recovery: RecoveryPolicy = PATIENT) -> tuple[Situation, Decision]:
    """A run whose raylet on one node has ended."""
    here = Situation(make_run(slices=1, spares=spares, recovery=recovery))
    here.serving()
    here.agent(LOST, ray=Step(phase=Phase.FAILED, exit_code=1), ranks=())
    found = here.decide()
    here.agent(OTHER, ranks=())
    return here, found


def killed(here: Situation, found: Decision, result: Result = Result.KILLED, words: str = "") -> None:
    """Every kill of the lost node is answered so, all others with `killed`."""
    for action in found.actions:
        if isinstance(action, Kill):
            theirs = (result, words) if action.node == LOST else (Result.KILLED, "")
            here.receive(action, theirs[0], message=theirs[1])


def tries(here: Situation, found: Decision, times: int, words: str = STRANGE) -> Decision:
    """The kill of the lost node is refused so often, each time that it is asked."""
    for _ in range(times):
        killed(here, found, Result.NOT_FREE, words)
        here.decide()
        found = here.decide(after=31.0)
    return found


def kills(found: Decision) -> list[Kill]:
    return [action for action in found.actions if isinstance(action, Kill)]


def test_gpus_have_to_be_free_where_a_slot_stays_and_not_where_it_leaves() -> None:
    here, found = lost()
    assert {kill.node for kill in kills(found)} == {LOST, OTHER}
    assert all(kill.reused for kill in kills(found))
    found = tries(here, found, 3)
    assert here.record.slots[MemberName("main/1")].node == SPARE
    assert {kill.node: kill.reused for kill in kills(found)} == {LOST: False}


def test_a_stranger_for_a_moment_costs_nothing() -> None:
    here, found = lost()
    found = tries(here, found, 2)
    assert not [key for key in kinds(found) if key.startswith("join")]
    killed(here, found)
    here.agent(LOST, ray=Step())
    assert kinds(here.decide()) == [f"join:{LOST}#1"]
    assert LOST not in here.record.failed_nodes


def test_without_a_spare_the_run_waits_names_the_stranger_and_goes_on_once_he_is_gone() -> None:
    here, found = lost(spares=0)
    here.agent(LOST, ray=Step())
    for _ in range(20):
        found = tries(here, found, 1)
        assert {action.kind for action in found.actions} <= {"kill"}
    assert (found.state, found.status_message) == (RunState.ON_HOLD, f"main/1 waits for {LOST}: {STRANGE}")
    killed(here, found)
    assert kinds(here.decide()) == [f"join:{LOST}#1"]


def test_a_policy_that_does_not_wait_ends_the_run_and_says_why() -> None:
    here, found = lost(spares=0, recovery=RecoveryPolicy(on_no_spare=OnNoSpare.FAIL))
    tries(here, found, 3)
    assert here.record.outcome is not None
    assert STRANGE in here.record.outcome.message


def test_what_cannot_be_killed_is_named() -> None:
    here, found = lost()
    for _ in range(2):
        killed(here, found, Result.CANNOT_TELL, "still alive: 4711")
        here.decide()
        found = here.decide(after=31.0)
    assert found.status_message == f"main/1 waits for {LOST}: still alive: 4711"
    assert here.record.slots[MemberName("main/1")].node == LOST


@pytest.mark.parametrize("fence", [None, "fence {node}"])
def test_power_ends_what_cannot_be_killed_once_its_slot_has_gone_elsewhere(fence: str | None) -> None:
    here, found = lost()
    here.run = replace(here.run, fleet=replace(here.run.fleet, fence_command=fence))
    here.sign(LOST, Symptom.GPU_LOST, "3 of 4 GPUs")
    cuts: list[float] = []
    for _ in range(20):
        killed(here, found, Result.CANNOT_TELL, "still alive: 4711")
        here.decide()
        found = here.decide(after=31.0)
        cuts += [here.at for action in found.actions if isinstance(action, PowerOff)]
        assert not [key for key in kinds(found) if key.startswith("start")]
    assert here.record.slots[MemberName("main/1")].node == SPARE
    assert (len(cuts) >= 2) == (fence is not None)
    assert all(later - earlier >= 120 for earlier, later in pairwise(cuts)), "a machine may be seen for a while"


TRAY = "0, GPU-a\n1, GPU-b\n2, GPU-c\n3, GPU-d\n"


def test_who_computes_is_named_with_all_his_gpus_and_others_gpus_are_nobodys_business() -> None:
    apps = "GPU-b, 999999999, /usr/bin/python, x\nGPU-c, 999999999, /usr/bin/python, x\nGPU-d, 1, init\n"
    assert gpus.computing(TRAY, apps, 3) == ["`python, x` (pid 999999999) computes on GPU 1, 2"]
    assert gpus.computing(TRAY, apps, 4)[1] == "`init` (pid 1, of root) computes on GPU 3"
    assert gpus.computing(TRAY, apps, 1) == []
    assert gpus.computing(TRAY, apps, 4, {"1", "999999999"}) == []
    assert gpus.computing(TRAY, "GPU-a, 7, nvidia-cuda-mps-server\n", 4) == []


@pytest.mark.parametrize(
    ("tray", "apps", "words"),
    [
        ("0, GPU-a\n1, GPU-b\n", "", "the driver has 2 of 4 GPUs"),
        (TRAY, "No devices were found\n", "unexpected output of `nvidia-smi`: `No devices were found`"),
        ("", "", "the driver has 0 of 4 GPUs"),
    ],
)
def test_a_driver_that_does_not_know_is_never_taken_for_free(tray: str, apps: str, words: str) -> None:
    with pytest.raises(OSError, match=words):
        gpus.computing(tray, apps, 4)


def put_tool(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver's tool that does as a script says, and is found first."""
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(gpus, "ANSWER_S", 1.0)
    monkeypatch.setattr(gpus, "LEAVE_S", 0.0)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("sleep 60", "`nvidia-smi` did not answer within 1 s"),
        ("echo Unable to determine the device handle; exit 9", "ended with 9: Unable to determine the device handle"),
    ],
)
def test_a_sick_driver_gets_its_time_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    put_tool(tmp_path, script, monkeypatch)
    begun = time.monotonic()
    told = gpus.free(4, list)
    assert not told["ok"]
    assert told["message"].startswith("cannot tell whether its GPUs are free: ")
    assert words in told["message"]
    assert time.monotonic() - begun < 20


def test_a_process_that_is_just_dying_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = f"echo x >> {tmp_path}/asked; [ $(wc -l < {tmp_path}/asked) -gt 2 ] || echo GPU-a, 4711, python"
    put_tool(tmp_path, f'case $1 in --query-gpu*) echo "0, GPU-a";; *) {asked};; esac', monkeypatch)
    monkeypatch.setattr(gpus, "LEAVE_S", 20.0)
    assert gpus.free(1, list) == {"ok": True}
    assert len((tmp_path / "asked").read_text().split()) == 3
