"""What `up` for a run that goes on takes over from it."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from launcher.admission.context import AdmissionContext
from launcher.admission.listener import SilentListener
from launcher.admission.request import Request, RequestSource, read_request
from launcher.admission.resize import find_resizable
from launcher.core.model.run import RunName
from launcher.core.placement.place import place
from launcher.drive.adapters import open_prober
from launcher.errors import SpecError
from launcher.store.store import Store

TASK = """
name: job
run: train
envs: {STEPS: 10, MODE: null}
topology: {slices: COUNT, nodes_per_slice: 1, within: rack}
"""
FLEET = "name: hall\ntransport: sim\nracks: {r1: {nodes: 'r1-n[1-4]'}}\n"


@pytest.fixture
def context(tmp_path: Path) -> AdmissionContext:
    store = Store(tmp_path)
    return AdmissionContext(store=store, open_prober=partial(open_prober, tmp_path), listener=SilentListener())


def asked(context: AdmissionContext, slices: int, envs: Mapping[str, str], text: str = TASK) -> Request:
    text = text.replace("COUNT", str(slices))
    return read_request(context, RequestSource(task_text=text, inventory_text=FLEET, envs=envs))


def start(context: AdmissionContext, request: Request) -> None:
    context.store.launch(
        name=RunName(request.task.name),
        task=request.task,
        fleet=request.fleet,
        decide=partial(place, request.task, request.fleet),
        source="task.yaml",
        at=0.0,
    )


def test_a_run_that_goes_on_keeps_the_variables_that_it_was_given(context: AdmissionContext) -> None:
    begun = {"STEPS": "99", "MODE": "fast", "EXTRA": "1"}
    first = asked(context, 1, begun)
    start(context, first)
    again = asked(context, 2, {})
    assert again.task.groups[0].envs == begun
    assert find_resizable(context, asked(context, 1, {})) is None, "the task is unchanged"
    assert find_resizable(context, again) is not None
    assert asked(context, 2, {"STEPS": "7"}).task.groups[0].envs == {**begun, "STEPS": "7"}
    edited = asked(context, 2, {}, TASK.replace("STEPS: 10", "STEPS: 10, NEW: x"))
    assert edited.task.groups[0].envs == {**begun, "NEW": "x"}


def test_other_tasks_keep_nothing_of_it(context: AdmissionContext) -> None:
    start(context, asked(context, 1, {"STEPS": "99", "MODE": "fast"}))
    other = TASK.replace("name: job", "name: other")
    with pytest.raises(SpecError, match="MODE"):
        asked(context, 1, {}, other)
    assert asked(context, 1, {"MODE": "slow"}, other).task.groups[0].envs == {"STEPS": "10", "MODE": "slow"}
