"""Conservative backfill: which queued run starts, and when the others can."""

import math
from dataclasses import replace

from launcher.core.model.placement import Unavailable
from launcher.core.queue.backfill import RELEASE_S, SETUP_S, remaining, schedule
from launcher.core.queue.preemption import ActiveRun
from tests.property.test_queue import FLEET, going_of, task, waits
from tests.unit.core.queue.builders import held


def decide(waiting: list, unavailable: dict, *going: ActiveRun) -> dict[str, tuple[bool, float | None]]:
    return {t.run.name: (t.placement is not None, t.after) for t in schedule(waiting, FLEET, unavailable, going)}


class TestSchedule:
    def test_higher_priority_starts_before_an_older_run(self) -> None:
        unavailable = held(r0="a", r1="a")
        waiting = [waits(0, task(1, 3)), waits(1, task(1, 3, priority=1))]
        assert decide(waiting, unavailable, going_of("a", task(1, 1), math.inf))["w01"] == (True, 0.0)

    def test_a_small_run_passes_if_it_ends_before_the_large_one_can_start(self) -> None:
        unavailable = held(r0="a", r1="a", r2_2="a")
        waiting = [waits(0, task(3, 3)), waits(1, task(1, 1, limit=60.0)), waits(2, task(1, 1, limit=9000.0))]
        decided = decide(waiting, unavailable, going_of("a", task(1, 1), 3600.0))
        assert decided["w00"] == (False, 3600.0)
        assert decided["w01"] == (True, 0.0)
        assert not decided["w02"][0]

    def test_a_run_without_time_limit_passes_only_on_nodes_that_the_large_one_does_not_need(self) -> None:
        unavailable = held(r0="a", r1_2="b")
        waiting = [waits(0, task(2, 3)), waits(1, task(1, 1))]
        ends = going_of("a", task(1, 1), 100.0), going_of("b", task(1, 1), 5000.0)
        decided = decide(waiting, unavailable, *ends)
        # r0 and r2 are for the big one in 100 s; r1 is not.
        assert decided == {"w00": (False, 100.0), "w01": (True, 0.0)}

    def test_nodes_of_use_are_kept_for_a_run_whose_start_is_not_known(self) -> None:
        unavailable = held(r0="a", r1_2="b")
        waiting = [waits(0, task(3, 3)), waits(1, task(1, 1, limit=60.0))]
        ends = going_of("a", task(1, 1), math.inf), going_of("b", task(1, 1), 50.0)
        assert decide(waiting, unavailable, *ends) == {"w00": (False, None), "w01": (False, None)}

    def test_a_run_that_can_never_fit_delays_no_other(self) -> None:
        unhealthy = {FLEET.nodes[0].name: Unavailable(unhealthy="xid 79")}
        waiting = [waits(0, task(3, 3)), waits(1, task(1, 1))]
        assert decide(waiting, unhealthy) == {"w00": (False, None), "w01": (True, 0.0)}

    def test_nodes_that_failed_the_checks_of_one_run_are_free_for_others(self) -> None:
        unfit = {node.name: Unavailable(unhealthy="no answer") for node in FLEET.nodes if node.rack == "r0"}
        first = replace(waits(0, task(3, 3)), unavailable=unfit)
        assert decide([first, waits(1, task(1, 3))], {})["w01"] == (True, 0.0)

    def test_nodes_that_are_reserved_for_a_run_are_its_own_alone(self) -> None:
        kept = {name: replace(use, reserved_for="w01") for name, use in held(r1="w01").items()}
        unavailable = {**held(r0="a"), **kept}
        waiting = [waits(0, task(2, 3)), waits(1, task(1, 3)), waits(2, task(1, 3))]
        decided = decide(waiting, unavailable, going_of("a", task(1, 1), math.inf))
        assert decided["w01"] == (True, 0.0)  # although a run before it could use them
        assert not decided["w00"][0]
        assert not decided["w02"][0]

    def test_the_remaining_time_of_a_run(self) -> None:
        limited = replace(task(1, 1, limit=100.0), stop_grace=10.0)
        assert remaining(limited, None, 1000.0) == 110.0 + SETUP_S
        assert remaining(limited, 1040.0, 1000.0) == 50.0 + RELEASE_S
        assert remaining(limited, 900.0, 1000.0) == 10.0 + RELEASE_S
        assert remaining(task(1, 1), None, 1000.0) == math.inf
        assert remaining(limited, 1040.0, 1000.0, 60.0) == 40.0 * 60.0 + 10.0 + RELEASE_S
        assert remaining(limited, 1040.0, 1000.0, math.inf) == 110.0 + SETUP_S
