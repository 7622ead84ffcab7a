"""The Python API over the imaginary fleet: the same values, errors and runs as the command has."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher import api
from launcher.core.model.run import Cause, RunState
from launcher.errors import ConflictError, NoCapacityError, SpecError
from tests.command.test_runs import FLEET, TASK, Desk
from tests.command.test_runs import desk as desk  # noqa: PLC0414 a fixture

ROOT = Path(__file__).parents[2]
ENDLESS = f"{FLEET}sim: {{seed: 1, speed: 50, run_s: inf}}\n"
SHORT = f"{FLEET}sim: {{seed: 1, speed: 500, run_s: 600}}\n"


def test_a_plan_is_what_the_command_writes(desk: Desk) -> None:
    plan = api.plan(desk.folder / "task.yaml", inventory=desk.folder / "fleet.yaml", verbose=True, home=desk.home)
    assert [part.rack for part in plan.slices] == ["r1", "r2"]
    assert api.plain(plan) == json.loads(desk.run("plan", "task.yaml", "-i", "fleet.yaml", "-v", "-o", "json").stdout)


def test_a_comparison_is_what_the_command_writes(desk: Desk) -> None:
    task, fleet = desk.folder / "task.yaml", desk.folder / "fleet.yaml"
    found = api.compare(task, ("rack", "any"), inventory=fleet, home=desk.home)
    assert [(one.within, one.fits) for one in found.choices] == [("rack", True), ("any", True)]
    cost = found.choices[0].slices[0].cost
    assert cost is not None
    assert cost.in_domain["all_reduce"] == cost.bandwidth["all_reduce"].ring == 840
    words = ("plan", "task.yaml", "-i", "fleet.yaml", "--compare", "rack,any", "-o", "json")
    assert api.plain(found) == json.loads(desk.run(*words).stdout)
    with pytest.raises(SpecError, match="`within: pod` is not a level"):
        api.compare(task, ("pod",), inventory=fleet, home=desk.home)


def test_a_run_from_its_start_to_its_end(desk: Desk) -> None:
    run = api.up(TASK, inventory=ENDLESS, name="texts", envs={"STEPS": "7"}, secrets={"KEY": "hush"}, home=desk.home)
    assert (run.name, run.inventory, len(run.ranks)) == ("texts", "hall", 4)
    assert run.user
    with pytest.raises(TimeoutError, match="texts"):
        api.wait("texts", timeout=0.3, home=desk.home)
    shown = api.status(run.id, home=desk.home)
    told = desk.status("texts")
    fixed = {"id", "name", "inventory", "ranks", "spares", "user", "submit_host", "driven"}
    assert {key: value for key, value in api.plain(shown).items() if key in fixed} == {
        key: value for key, value in told.items() if key in fixed
    }
    assert list(api.plain(shown)) == list(told)
    lines = list(api.logs(run.id, rank=1, home=desk.home))
    assert {line.source for line in lines} == {"main/1"}
    assert "NVLAUNCH_NODE_RANK=1" in [line.text for line in lines]
    with pytest.raises(ConflictError, match="a run named `texts` is"):
        api.up(TASK, inventory=ENDLESS, name="texts", envs={"STEPS": "7"}, secrets={"KEY": "hush"}, home=desk.home)
    ended = api.down(run.id, timeout=60, home=desk.home)
    assert (ended.state, ended.outcome and ended.outcome.cause) == (RunState.STOPPED, Cause.STOPPED)
    assert api.wait(run.id, home=desk.home) == ended.outcome
    assert [one.id for one in api.runs(home=desk.home)] == [run.id]
    events = api.plain(list(api.events(run.id, home=desk.home)))
    assert events == json.loads(desk.run("events", run.id, "-o", "json").stdout)
    assert not list(desk.home.glob("runs/*/secrets.json"))


def test_logs_and_events_are_followed_to_the_end_and_the_outcome_is_waited_for(desk: Desk) -> None:
    run = api.up(TASK, inventory=SHORT, home=desk.home)
    lines = list(api.logs(run.id, rank=0, follow=True, home=desk.home))
    assert lines[0].text == "NVLAUNCH_RUN=job"
    events = list(api.events(run.id, follow=True, home=desk.home))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].kind.value == "ended"
    assert api.wait(run.id, timeout=60, home=desk.home).cause is Cause.SUCCESS


def test_a_queued_run_is_accepted_at_once(desk: Desk) -> None:
    first = api.up(TASK, inventory=ENDLESS, name="first", home=desk.home)
    with pytest.raises(NoCapacityError) as refused:
        api.up(TASK, inventory=ENDLESS, name="second", home=desk.home)
    assert refused.value.shortfall.group == "main"
    assert api.up(TASK, inventory=ENDLESS, name="second", queue=True, home=desk.home).state is RunState.QUEUED
    for name in ("second", first.id):
        assert api.down(name, timeout=60, home=desk.home).state is RunState.STOPPED


def test_errors_name_the_file_and_what_helps(desk: Desk) -> None:
    with pytest.raises(SpecError, match=r"^nofile\.yaml: no such file$"):
        api.plan("nofile.yaml", home=desk.home)
    too_large = TASK.replace("slices: 2", "slices: 9")
    with pytest.raises(NoCapacityError) as refused:
        api.plan(too_large, inventory=ENDLESS, home=desk.home)
    assert refused.value.hints == refused.value.shortfall.suggestions != ()


def test_mistakes_in_a_text_have_their_line(desk: Desk) -> None:
    with pytest.raises(SpecError) as refused:
        api.plan("run: echo\nnum_node: 2\n", inventory=SHORT, home=desk.home)
    (mistake,) = refused.value.mistakes
    assert str(mistake).startswith("<task>:2:1: unknown key `num_node`")
    with pytest.raises(SpecError, match="no run is named `nosuch`"):
        api.wait("nosuch", home=desk.home)
    with pytest.raises(SpecError, match="no run is named `nosuch`"):
        api.logs("nosuch", home=desk.home)


def test_the_example_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "api.py"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NVLAUNCH_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "success: " in done.stdout
