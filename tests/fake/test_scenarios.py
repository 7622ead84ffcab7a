"""Scenarios of failure, each a file: an inventory, a task, faults, and what must come of it; also with a controller
that is killed again and again meanwhile."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.core.control.reconcile import Decision
from launcher.core.model.action_key import key_of
from launcher.core.model.inventory import Access, GpuDriver, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName, expand
from launcher.core.model.operator_requests import OperatorRequest, RequestKind
from launcher.core.model.placement import Placement
from launcher.core.model.run import Run, RunId, RunName, RunState
from launcher.core.model.simulation import Fault, FaultKind, SimSettings
from launcher.core.model.task import Group, OnNoSpare, OnStraggler, RecoveryPolicy, RestartWith, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.core.placement.slice_range import as_placed
from tests.property.worlds import Play

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.yaml"))
STARTED = 15.0
"""By then every rank of a scenario runs (s); its faults come later."""
TOUCHING = ("prepare", "join", "kill", "release", "power_off", "signal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What was decided at one moment of a scenario."""

    at: float
    decision: Decision


def read(path: Path) -> dict[str, Any]:
    """The text of a scenario, as written."""
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    assert found.keys() <= {"about", "fleet", "task", "faults", "orders", "expect"}, path
    return found


def fleet(told: Mapping[str, Any], faults: list[Mapping[str, Any]], run_s: float) -> Inventory:
    """An inventory of racks r1.. with nodes r1-n1.., each rack one NVLink domain, and so many racks to a block."""
    per_block = told.get("racks_per_block", told["racks"])
    names = [(rack, node) for rack in range(1, told["racks"] + 1) for node in range(1, told["nodes"] + 1)]
    driver = GpuDriver.NVIDIA if told.get("gpus", True) else GpuDriver.NONE
    nodes = tuple(
        Node(
            name=NodeName(f"r{rack}-n{node}"),
            rack=RackName(f"r{rack}"),
            domain=f"domain {rack}",
            access=Access(address=f"10.0.{rack}.{node}"),
            gpu_driver=driver,
            places={"block": f"b{(rack - 1) // per_block + 1}"},
        )
        for rack, node in names
    )
    happen = tuple(
        Fault(
            at=float(at),
            node=NodeName(node),
            fault=FaultKind(fault["fault"]),
            duration=fault.get("duration"),
            code=fault.get("code", 3),
        )
        for fault in faults
        for at in (fault["at"] if isinstance(fault["at"], list) else [fault["at"]])
        for node in expand(fault["node"])
    )
    return Inventory(
        name="hall",
        transport=Transport.SIM,
        nodes=nodes,
        levels=("block", "rack"),
        head=Access(address="10.9.9.9") if told.get("head") else None,
        fence_command="fence {node}" if told.get("fence") else None,
        power_query="query {node}" if told.get("query") else None,
        sim=SimSettings(start_s=3.0, run_s=run_s, faults=happen),
    )


def task(told: Mapping[str, Any]) -> Task:
    """A task of one group `main`, and of a `guest` on so many of its nodes where there is one.

    `driver` says whether the nodes of its driver are reserved.
    """
    known = {
        *("slices", "nodes", "spares", "spares_per_rack", "run_s", "stop_grace"),
        *("guest", "guest_restarts_with", "driver", "least", "all_within"),
    }
    policy = {key: value for key, value in told.items() if key not in known}
    for key, kind in (("on_no_spare", OnNoSpare), ("restart_with", RestartWith), ("on_straggler", OnStraggler)):
        if key in policy:
            policy[key] = kind(policy[key])
    rule = TopologyRule(
        slices=told.get("slices", 1),
        min_slices=told.get("least"),
        max_slices=told["slices"] if "least" in told else None,
        nodes_per_slice=told["nodes"],
        all_within=told.get("all_within"),
        spares=told.get("spares", 0),
        spares_per_rack=told.get("spares_per_rack", 0),
    )
    recovery = RecoveryPolicy(**policy)
    main = Group(name="main", topology=rule, gpus=4, run="true", recovery=recovery)
    if "driver" in told:
        main = replace(main, run="", driver="true", reserve=told["driver"] == "reserved")
    groups = [main]
    if "guest" in told:
        beside = TopologyRule(nodes_per_slice=told["guest"], nodes_of="main")
        own = replace(recovery, restart_with=RestartWith(told.get("guest_restarts_with", recovery.restart_with)))
        groups.append(Group(name="guest", topology=beside, run="true", recovery=own))
    return Task(name="job", groups=tuple(groups), stop_grace=float(told.get("stop_grace", 5.0)))


class Scenario:
    """One scenario, played from its first action to its end."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.told = told
        run_s = float(told["task"].get("run_s", 120.0))
        whole = fleet(told["fleet"], told.get("faults", []), run_s)
        asked = task(told["task"])
        taken = set(expand(told["fleet"]["taken"])) if "taken" in told["fleet"] else set()
        open_ = replace(whole, nodes=tuple(node for node in whole.nodes if node.name not in taken))
        placement = place(asked, open_, {})
        assert isinstance(placement, Placement), placement
        run = Run(
            id=RunId("job-1"),
            name=RunName("job"),
            task=as_placed(asked, placement.slices),
            placement=placement,
            fleet=whole.cut_down(placement.nodes),
        )
        self.play = Play(run, whole=whole, taken=sorted(taken))
        self.moments: list[Moment] = []

    def go(self, crashes: tuple[float, ...] = ()) -> Decision:
        """Play it to the end; the controller is killed after each of these times, between its intent and its acts."""
        play, left, until = self.play, list(crashes), float(self.told["expect"].get("until", 1200.0))
        while True:
            now = play.clock.now()
            self._operate(now)
            crash = bool(left) and now >= left[0]
            decision = play.tick(until=len(left) % 2, lose=len(left) % 3 == 0) if crash else play.tick()
            self.moments.append(Moment(at=now, decision=decision))
            if decision.state.final or now >= until:
                return decision
            if crash:
                left.pop(0)
                play.crash()
                continue
            play.clock.wait(decision.wake_at, lambda: False)

    def _operate(self, now: float) -> None:
        for at, told in enumerate(self.told.get("orders", ()), start=1):
            if now < told["at"]:
                continue
            if told["order"] == "drain":
                self.play.drained[NodeName(told["subject"])] = "maintenance"
            elif told["order"] == "undrain":
                self.play.drained.pop(NodeName(told["subject"]), None)
            elif told["order"] == "free":
                self.play.allotter.taken.pop(NodeName(told["subject"]), None)
            elif all(order.seq != at for order in self.play.orders):
                kind = RequestKind(told["order"])
                self.play.orders.append(
                    OperatorRequest(seq=at, at=now, kind=kind, subject=told.get("subject", ""), by="ann")
                )

    def began(self) -> float:
        """When the first fault or order came."""
        times = [fault["at"] for fault in self.told.get("faults", ())] + [o["at"] for o in self.told.get("orders", ())]
        return min(float(at[0] if isinstance(at, list) else at) for at in times)

    def acts(self) -> list[str]:
        """What was done from the first fault on until the run was over, by key."""
        later = [moment for moment in self.moments if moment.at >= self.began()]
        going = [moment for moment in later if moment.decision.record.outcome is None]
        return [str(key_of(action)) for moment in going for action in moment.decision.actions]

    def recovered(self) -> float:
        """How long after the first fault every rank ran again, in a new attempt (s)."""
        first = self.moments[0].decision.record.gangs.keys()
        for moment in self.moments:
            record = moment.decision.record
            again = all(record.gangs[name].attempt > 1 and not record.gangs[name].broken for name in first)
            if moment.at > self.began() and again and moment.decision.state is RunState.RUNNING:
                return moment.at - self.began()
        return float("inf")


def check(here: Scenario, last: Decision) -> None:
    """Hold what came of a scenario to what it expects."""
    expect, record = dict(here.told["expect"]), last.record
    expect.pop("until", None)
    assert last.state.value == expect.pop("state"), last.status_message
    began = here.moments[0].decision.record.slots
    before = {name: slot.node for name, slot in began.items()}
    moved = {name: slot.node for name, slot in record.slots.items() if slot.node != before.get(name)}
    assert moved == expect.pop("swaps", {})
    for key, found in (
        ("attempts", max(gang.attempt for gang in record.gangs.values())),
        ("restarts", sum(gang.restarts for gang in record.gangs.values())),
        ("clusters", record.cluster),
        ("cause", record.outcome.cause.value if record.outcome else None),
        ("exit_code", record.outcome.exit_code if record.outcome else None),
    ):
        if key in expect:
            assert found == expect.pop(key), key
    touched = {key.split(":")[1].split("#")[0] for key in here.acts() if key.split(":")[0] in ("prepare", "join")}
    assert not touched & set(expand(expect.pop("untouched", "none"))), touched
    assert set(expand(expect.pop("hot", "none"))) - {"none"} <= record.spares.keys()
    if "ends_with" in expect:
        assert {*here.play.run.placement.nodes} == {*expand(expect.pop("ends_with"))}
    headlines = [moment.decision.status_message for moment in here.moments]
    for words in expect.pop("said", ()):
        assert any(words in line for line in headlines), sorted(set(headlines))
    for words in expect.pop("never_said", ()):
        assert not any(words in line for line in headlines), words
    if expect.pop("nothing", False):
        assert here.acts() == []
    assert here.recovered() <= expect.pop("within", float("inf"))
    assert not expect, f"unknown expectations {expect}"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_what_comes_of_a_fault(path: Path) -> None:
    here = Scenario(read(path))
    check(here, here.go())


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_controller_killed_at_five_moments_changes_nothing(path: Path) -> None:
    told = read(path)
    here = Scenario(told)
    began = here.began()
    last = here.go(tuple(began + after for after in (0.0, 1.0, 9.0, 19.0, 22.0)))
    told["expect"].pop("within", None)
    told["expect"].pop("nothing", None)
    check(here, last)
