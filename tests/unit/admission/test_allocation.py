"""Nodes that Slurm has too: waited for where the task needs them, for a bounded time."""

import pytest

from launcher.admission.allocation import AGAIN_S, ALLOCATION_S, await_allocation
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Shortfall
from launcher.errors import ProvisionError
from launcher.probe.results import Unknown
from tests.unit.admission.test_preflight import World, every, fleet, preflight, task, where

NO_JOB = Unknown(why="permission denied; the node says: no active jobs on this node", unreachable=True, no_job=True)


class Waiting:
    """A task of some nodes in a rack of four, of which Slurm lets us into some only after a while."""

    def __init__(self, shut: str, *, nodes: int, opens_after: float = float("inf")) -> None:
        self.world = World(every(shut, NO_JOB))
        self.flight = preflight(task(1, nodes), fleet(4), self.world)
        self.opens_after, self.waited = opens_after, 0.0
        self.told: list[NodeName] = []

    def wait(self, seconds: float) -> None:
        self.waited += seconds
        if self.waited >= self.opens_after:
            self.world.spoilt = {}

    def place(self) -> Placement | Shortfall:
        return await_allocation(self.flight, lambda: self.flight.place({}), self.told.extend, self.wait)


@pytest.mark.parametrize("shut", ["r1-n2", "r1-n[1-4]"], ids=["one", "all"])
def test_a_task_waits_for_nodes_that_let_it_in_some_seconds_after_its_job_began(shut: str) -> None:
    here = Waiting(shut, nodes=4, opens_after=10.0)
    assert where(here.place()) == ["r1-n[1-4]"]
    assert 10.0 <= here.waited <= 10.0 + AGAIN_S
    assert set(here.told) == set(every(shut, NO_JOB))


def test_nodes_of_others_are_passed_over_at_once_where_the_task_fits_without_them() -> None:
    here = Waiting("r1-n2", nodes=3)
    assert where(here.place()) == ["r1-n[1,3-4]"]
    assert here.waited == 0.0


UNRESOLVED = Unknown(why="cannot resolve its name: name or service not known", unreachable=True)
NO_KEY = Unknown(why="permission denied for `ann`; tried key", unreachable=True)


@pytest.mark.parametrize(
    ("spoilt", "hint"),
    [
        ({**every("r1-n[1-4]", UNRESOLVED)}, "check the DNS server of this machine"),
        ({**every("r1-n[1-4]", NO_KEY)}, "the user and key in the inventory"),
        ({**every("r1-n[1-2]", UNRESOLVED), **every("r1-n[3-4]", NO_KEY)}, "the user and key in the inventory"),
    ],
    ids=["no-name-is-known", "no-key-is-taken", "both"],
)
def test_where_no_node_answers_the_hint_is_about_what_they_say(spoilt: dict[str, Unknown], hint: str) -> None:
    flight = preflight(task(1, 4), fleet(4), World(spoilt))
    with pytest.raises(ProvisionError) as refused:
        flight.place({})
    assert hint in refused.value.advice


def test_the_wait_ends_and_names_the_nodes_with_their_words() -> None:
    here = Waiting("r1-n2", nodes=4)
    found = here.place()
    assert isinstance(found, Shortfall)
    assert "no active jobs" in found.unhealthy[NodeName("r1-n2")]
    assert here.waited <= ALLOCATION_S + AGAIN_S


def test_where_slurm_lets_us_in_nowhere_the_error_says_whom_to_ask() -> None:
    here = Waiting("r1-n[1-4]", nodes=4)
    with pytest.raises(ProvisionError) as refused:
        here.place()
    assert "Slurm has these nodes, and you have no job there" in refused.value.advice
    assert here.waited <= ALLOCATION_S + AGAIN_S
