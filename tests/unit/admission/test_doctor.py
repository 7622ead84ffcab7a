"""Agents of runs that have ended, as `doctor` names them."""

from dataclasses import replace

import pytest

from launcher.admission.doctor import Checkup, name_leftovers
from launcher.admission.node_checks import Examined
from launcher.core.model.inventory import Access, Node, RackName
from launcher.core.model.nodeset import NodeName
from launcher.probe.findings import CheckResult, Fact
from launcher.probe.resources import NodeProcess
from tests.facts import FACTS

NODE = Node(name=NodeName("r1-n1"), rack=RackName("r1"), access=Access(address="10.0.0.1"))
AGENT = NodeProcess(pid=7, user="ann", name="python3", ray=False, mark=None, agent="job-1:r1-n1")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"lease": "run `job` (job-1) of ann@here since 2026-01-01 10:00:00 UTC"}, True),
        ({"lease": None, "processes": (AGENT,)}, True),
        ({"lease": "run `job` (job-2) of ann@here since 2026-01-01 10:00:00 UTC"}, False),
        ({"lease": None}, False),
    ],
    ids=["lease", "agent", "lease of a run that goes on", "nothing"],
)
def test_an_agent_of_an_ended_run_is_bad_and_has_its_command(changes: dict[str, object], told: bool) -> None:
    facts = replace(FACTS, **changes)  # type: ignore[arg-type]
    found = Checkup(examined=(Examined(node=NODE, facts=facts, findings=()),), shared=(), reported={})
    named = name_leftovers(found, [("job-1", "job")])
    messages = [one.message for one in named.examined[0].findings]
    assert messages == (["agent of run `job`, which has ended; release it with nvlaunch down job-1"] if told else [])
    assert named.bad is told
    assert all(one.fact is Fact.LEFTOVERS and one.result is CheckResult.BAD for one in named.examined[0].findings)
