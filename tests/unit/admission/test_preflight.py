"""A task placed on nodes that answer: who is passed over, what is refused, and how many are asked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from launcher.admission.node_checks import HEAD
from launcher.admission.preflight import Preflight
from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName, expand, fold
from launcher.core.model.placement import Exclusion, Placement, Shortfall, Unavailable
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.errors import ProvisionError, SpecError
from launcher.ports import LearntKey, Listener
from launcher.probe.needs import NOTHING, TaskNeeds
from launcher.probe.node_facts import Facts
from launcher.probe.results import Unknown
from launcher.setup.lease import read_holder
from launcher.setup.ports import FIRST
from tests.facts import DRIVER, FACTS, HEALTHY

SILENT = Unknown(why="no answer in 10 s", unreachable=True)
HUNG = replace(FACTS, driver=Unknown(why="`nvidia-smi` did not answer within 20 s", hung=True))
SHORT = replace(FACTS, driver=replace(DRIVER, gpus=DRIVER.gpus[:3]))
OLD_RAY = replace(FACTS, python=replace(FACTS.python, ray="2.61.0"))
NO_SUDO = replace(FACTS, sudo=Unknown(why="`sudo` did not answer within 5 s", hung=True))
LOGOUT = replace(FACTS, logout=replace(FACTS.logout, remove_ipc=True))


def uuid(at: int) -> str:
    return f"{at:08d}-0000-0000-0000-000000000000"


def wired(facts: Facts, at: int | None) -> Facts:
    """The facts of a node whose GPUs are in the domain of that number, or in none that the driver knows."""
    if isinstance(facts.driver, Unknown):
        return facts
    fabric = replace(HEALTHY, cluster_uuid=None if at is None else uuid(at), clique_id=1)
    gpus = tuple(replace(gpu, fabric=fabric) for gpu in facts.driver.gpus)
    return replace(facts, driver=replace(facts.driver, gpus=gpus))


@dataclass
class World:
    """Answers in memory: who is spoilt says so, who is elsewhere reports another domain, all others are well."""

    spoilt: Mapping[str, Facts | Unknown] = field(default_factory=dict)
    elsewhere: Mapping[str, int | None] = field(default_factory=dict)
    rounds: list[str] = field(default_factory=list)
    needs: TaskNeeds = NOTHING

    def probe(
        self, nodes: Sequence[Node], listener: Listener, needs: TaskNeeds = NOTHING
    ) -> Mapping[NodeName, Facts | Unknown]:
        self.needs = needs
        self.rounds.append(fold(node.name for node in nodes))
        return {node.name: self._of(node) for node in nodes}

    def _of(self, node: Node) -> Facts | Unknown:
        facts = self.spoilt.get(node.name, FACTS)
        if isinstance(facts, Unknown) or node.name == HEAD:
            return facts
        return wired(facts, self.elsewhere.get(node.name, int(node.rack[1:])))

    def close(self) -> None: ...


class Deaf:
    def asking(self, nodes: Sequence[NodeName]) -> None: ...
    def heard(self, node: NodeName, *, answered: bool) -> None: ...
    def learnt(self, keys: Sequence[LearntKey]) -> None: ...


def fleet(*sizes: int, known: bool = True, **changes: object) -> Inventory:
    """Racks r1, r2 ... of so many nodes, each one domain, which the inventory knows or leaves out."""
    nodes = tuple(
        Node(
            name=NodeName(f"r{rack}-n{at}"),
            rack=RackName(f"r{rack}"),
            access=Access(address=f"10.0.{rack}.{at}", python="/opt/ray/bin/python"),
            domain=f"{uuid(rack)}.1" if known else None,
            accelerator="GB300",
            tray=at,
        )
        for rack, size in enumerate(sizes, start=1)
        for at in range(1, size + 1)
    )
    return replace(Inventory(name="hall", transport=Transport.SSH, nodes=nodes, source="fleet.yaml"), **changes)


def task(slices: int = 1, nodes: int = 2, spares: int = 0, **rule: object) -> Task:
    topology = TopologyRule(slices=slices, nodes_per_slice=nodes, spares=spares, **rule)
    return Task(name="job", groups=(Group(name="main", topology=topology, gpus=4),))


def preflight(
    work: Task, machines: Inventory, world: World, remembered: Mapping[NodeName, str] | None = None
) -> Preflight:
    return Preflight(work, machines, world, Deaf(), remembered or {})


def every(names: str, facts: Facts | Unknown) -> dict[str, Facts | Unknown]:
    return dict.fromkeys(expand(names), facts)


def where(answer: Placement | Shortfall) -> list[str]:
    assert isinstance(answer, Placement), answer
    return [fold(part.nodes) + (f"+{fold(part.spares)}" if part.spares else "") for part in answer.slices]


HEALED = {
    "all-well": (task(), fleet(2), World(), ["r1-n[1-2]"], ["r1-n[1-2]"]),
    "spare-is-asked-too": (task(spares=1), fleet(3), World(), ["r1-n[1-2]+r1-n3"], ["r1-n[1-3]"]),
    "bad-with-another": (task(), fleet(3), World(every("r1-n2", SHORT)), ["r1-n[1,3]"], ["r1-n[1-2]", "r1-n3"]),
    "bad-to-another-rack": (
        task(), fleet(2, 2), World(every("r1-n2", SHORT)), ["r2-n[1-2]"], ["r1-n[1-2]", "r2-n[1-2]"],
    ),
    "silent-with-another": (task(), fleet(3), World(every("r1-n1", SILENT)), ["r1-n[2-3]"], ["r1-n[1-2]", "r1-n3"]),
    "hung-driver-stops-a-start": (task(), fleet(3), World(every("r1-n1", HUNG)), ["r1-n[2-3]"], ["r1-n[1-2]", "r1-n3"]),
    "cannot-tell-does-not": (task(), fleet(3), World(every("r1-n1", NO_SUDO)), ["r1-n[1-2]"], ["r1-n[1-2]"]),
    "other-ray-is-odd": (
        task(nodes=3), fleet(4), World(every("r1-n2", OLD_RAY)), ["r1-n[1,3-4]"], ["r1-n[1-3]", "r1-n4"],
    ),
    "odd-slice-of-a-run": (
        task(slices=3), fleet(2, 2, 2, 2), World(every("r1-n[1-2]", OLD_RAY)),
        ["r2-n[1-2]", "r3-n[1-2]", "r4-n[1-2]"], ["r[1-3]-n[1-2]", "r4-n[1-2]"],
    ),
    "head-is-asked": (task(), fleet(2, head=Access(address="10.9.9.9")), World(), ["r1-n[1-2]"], ["@head,r1-n[1-2]"]),
}  # fmt: skip


@pytest.mark.parametrize(("work", "machines", "world", "expected", "rounds"), HEALED.values(), ids=HEALED)
def test_a_placement_is_of_nodes_that_were_asked(
    work: Task, machines: Inventory, world: World, expected: list[str], rounds: list[str]
) -> None:
    flight = preflight(work, machines, world)
    answer = flight.place({})
    assert where(answer) == expected
    assert world.rounds == rounds
    assert isinstance(answer, Placement)
    assert flight.asked(answer)
    assert not set(answer.nodes) & set(flight.unhealthy)


def on(boot: str, instance: str = "pid:[1]") -> Facts:
    """The facts of a machine of this boot, or of a container on it."""
    assert not isinstance(FACTS.host, Unknown)
    return replace(FACTS, host=replace(FACTS.host, boot_id=boot, instance=instance))


def test_a_machine_under_two_names_is_taken_once() -> None:
    world = World({"r1-n1": on("a"), "r1-n2": on("a"), "r1-n3": on("b"), "r1-n4": on("b", "pid:[2]")})
    flight = preflight(task(), fleet(4), world)
    assert where(flight.place({})) == ["r1-n[1,3]"]
    assert flight.unhealthy == {
        "r1-n2": "host: r1-n[1-2] are one machine under 2 names (10.0.1.1, 10.0.1.2): keep only one in the inventory"
    }


def test_containers_of_one_machine_are_nodes_of_their_own() -> None:
    world = World({"r1-n1": on("a"), "r1-n2": on("a", "pid:[2]")})
    assert where(preflight(task(), fleet(2), world).place({})) == ["r1-n[1-2]"]


def test_folders_of_file_mounts_are_tried_on_the_nodes() -> None:
    world = World()
    mounts = {"/data/set/a.json": "/a", "~/b.json": "/b", "c.json": "/c", "/data/set/d/": "/d"}
    preflight(replace(task(), file_mounts=mounts), fleet(2), world).place({})
    assert world.needs.folders == ("/data/set", "~")


def test_an_unhealthy_node_without_another_is_named_in_the_refusal() -> None:
    answer = preflight(task(), fleet(2), World(every("r1-n2", SHORT))).place({})
    assert isinstance(answer, Shortfall)
    assert answer.racks[0].excluded == {Exclusion.UNHEALTHY: 1}
    assert answer.unhealthy == {"r1-n2": "gpus: 3 of 4 found"}


def test_what_other_runs_have_is_neither_asked_nor_taken() -> None:
    world = World()
    taken = {NodeName("r1-n1"): Unavailable(used_by="other")}
    assert where(preflight(task(), fleet(3, known=False), world).place(taken)) == ["r1-n[2-3]"]
    assert world.rounds == ["r1-n[2-3]"]


# unknown domains


def test_domains_left_out_are_asked_in_the_racks_that_are_chosen() -> None:
    world = World()
    flight = preflight(task(nodes=3), fleet(4, 6, known=False), world)
    assert where(flight.place({})) == ["r1-n[1-3]"]
    assert world.rounds == ["r1-n[1-4]"]
    assert {node.name: node.domain for node in flight.fleet.nodes}["r1-n4"] == f"{uuid(1)}.1"
    assert flight.reported == {f"r1-n{at}": f"{uuid(1)}.1" for at in range(1, 5)}


def test_a_rack_that_proves_to_be_two_domains_is_left_for_another() -> None:
    world = World(elsewhere={"r1-n1": 9, "r1-n2": 9})
    assert where(preflight(task(nodes=3), fleet(4, 6, known=False), world).place({})) == ["r2-n[1-3]"]
    assert world.rounds == ["r1-n[1-4]", "r2-n[1-6]"]


def test_a_node_whose_drivers_report_no_domain_gets_no_rack_local_work() -> None:
    world = World(elsewhere={"r1-n1": None})
    assert where(preflight(task(), fleet(3, known=False), world).place({})) == ["r1-n[2-3]"]


def test_remembered_domains_save_questions_and_are_asked_again_where_work_goes() -> None:
    world = World()
    known = {NodeName(f"r1-n{at}"): f"{uuid(1)}.1" for at in range(1, 5)}
    assert where(preflight(task(), fleet(4, known=False), world, known).place({})) == ["r1-n[1-2]"]
    assert world.rounds == ["r1-n[1-2]"]


def test_a_memory_that_proves_wrong_is_forgotten_for_the_whole_rack() -> None:
    world = World()
    stale = {NodeName(f"r1-n{at}"): f"{uuid(7)}.1" for at in range(1, 4)}
    flight = preflight(task(nodes=3), fleet(3, known=False), world, stale)
    assert where(flight.place({})) == ["r1-n[1-3]"]
    world = World()
    flight = preflight(task(nodes=2), fleet(3, known=False), world, stale)
    answer = flight.place({})
    assert where(answer) == ["r1-n[1-2]"]
    assert isinstance(answer, Placement)
    assert answer.slices[0].domain == f"{uuid(1)}.1"


def test_drivers_that_contradict_the_inventory_are_refused_with_both_shown() -> None:
    with pytest.raises(SpecError) as caught:
        preflight(task(nodes=3), fleet(3), World(elsewhere={"r1-n1": 9, "r1-n2": 9})).place({})
    (mistake,) = caught.value.mistakes
    assert mistake.where == "fleet.yaml"
    said = f"r1-n[1-2]: the inventory says domain `{uuid(1)}.1`, the drivers report `{uuid(9)}.1`"
    assert mistake.what == said


# what cannot be healed by placing anew


def test_two_halves_that_differ_are_both_named() -> None:
    other = replace(FACTS, driver=replace(DRIVER, version="570.1"))
    flight = preflight(task(), fleet(4), World(every("r1-n2", other)))
    with pytest.raises(ProvisionError, match=r"slice `main.s0` cannot start: driver: driver version differs") as caught:
        flight.place({})
    assert "r1-n1: 580.173.02" in caught.value.message
    assert "r1-n2: 570.1" in caught.value.message


def test_slices_that_differ_as_halves_are_both_named() -> None:
    with pytest.raises(ProvisionError, match=r"the run cannot start: ray: Ray version differs: .*2\.60\.0.*2\.61\.0"):
        preflight(task(slices=2), fleet(2, 2), World(every("r2-n[1-2]", OLD_RAY))).place({})


@pytest.mark.parametrize("machines", [fleet(2), fleet(2, 2, 2)], ids=["one-rack", "three"])
def test_where_nobody_answers_the_way_there_is_suspected(machines: Inventory) -> None:
    world = World(every("r[1-3]-n[1-2]", SILENT))
    with pytest.raises(ProvisionError, match=r"cannot reach any of [24] nodes") as caught:
        preflight(task(), machines, world).place({})
    assert "network" in caught.value.hints[0]
    assert len(world.rounds) <= 2


@pytest.mark.parametrize("facts", [SILENT, replace(FACTS, clock=-3600.0)], ids=["silent", "clock"])
def test_an_unhealthy_head_has_no_other(facts: Facts | Unknown) -> None:
    machines = fleet(3, head=Access(address="10.9.9.9"))
    with pytest.raises(ProvisionError, match=r"cannot use the machine for Ray heads, `10\.9\.9\.9`"):
        preflight(task(), machines, World({HEAD: facts})).place({})


def test_a_head_of_another_ray_than_all_nodes_has_no_other() -> None:
    machines = fleet(3, head=Access(address="10.9.9.9", python="/opt/ray/bin/python"))
    with pytest.raises(ProvisionError, match=r"the machine for Ray heads, .* Ray version differs"):
        preflight(task(), machines, World({HEAD: OLD_RAY})).place({})


# what is told, and stops nothing


def test_what_warns_of_the_runs_life_is_a_finding_and_no_sickness() -> None:
    flight = preflight(task(), fleet(2), World(every("r1-n[1-2]", LOGOUT)))
    answer = flight.place({})
    assert isinstance(answer, Placement)
    told = {finding.message for one in flight.of(answer) for finding in one.findings if finding.result.value == "bad"}
    assert len(told) == 1
    assert "`RemoveIPC` removes its shared memory" in told.pop()


def _listening(ports: Iterable[int]) -> Facts:
    return replace(FACTS, ports=frozenset(ports))


@pytest.mark.parametrize(
    ("used", "unhealthy"),
    [([FIRST], False), (range(FIRST, FIRST + 100, 10), True)],
    ids=["a-port-is-stepped-over", "no-block-is-left"],
)
def test_a_node_is_unhealthy_when_no_block_of_ports_is_free(used: Iterable[int], unhealthy: bool) -> None:
    flight = preflight(task(), fleet(3), World(every("r1-n1", _listening(used))))
    flight.place({})
    assert (NodeName("r1-n1") in flight.unhealthy) is unhealthy


def test_local_racks_are_told_what_they_lack_and_stopped_by_the_wrong_ray_alone() -> None:
    machines = fleet(3, transport=Transport.LOCAL)
    full = replace(FACTS, spaces=(replace(FACTS.spaces[0], free=0),), clock=-9999.0)
    assert where(preflight(task(), machines, World(every("r1-n[1-3]", full))).place({})) == ["r1-n[1-2]"]
    no_ray = replace(FACTS, python=replace(FACTS.python, ray=None))
    assert isinstance(preflight(task(), machines, World(every("r1-n[1-3]", no_ray))).place({}), Shortfall)


LEASE = "run `theirs` (theirs-abc123) of bob@desk since 2026-11-30 01:00:00 UTC"
HELD = replace(FACTS, lease=LEASE)


def test_a_placement_is_computed_once_for_what_is_known() -> None:
    flight = preflight(task(), fleet(4), World())
    first = flight.place({})
    assert flight.again({}) is first
    taken = {NodeName("r1-n1"): Unavailable(used_by="other")}
    other = flight.again(taken)
    assert where(other) == ["r1-n[2-3]"]
    assert flight.again(dict(taken)) is other
    flight.exclude({NodeName("r1-n2"): "is hot"})
    assert where(flight.again(taken)) == ["r1-n[3-4]"]
    assert where(flight.again({})) == ["r1-n[1,3]"]


def test_nodes_that_another_has_are_passed_over_and_not_called_unhealthy() -> None:
    flight = preflight(task(), fleet(2, 2), World(every("r1-n2", replace(HELD, driver=SHORT.driver))))
    assert where(flight.place({})) == ["r2-n[1-2]"]
    assert flight.unhealthy == {}
    assert {name: str(holder) for name, holder in flight.held.items()} == {"r1-n2": LEASE}


def test_where_nothing_is_left_the_refusal_counts_them_as_in_use() -> None:
    flight = preflight(task(), fleet(2), World(every("r1-n2", HELD)))
    answer = flight.place({})
    assert isinstance(answer, Shortfall)
    assert answer.racks[0].excluded == {Exclusion.IN_USE: 1}
    assert answer.racks[0].users == {"run `theirs` (theirs-abc123) of bob@desk": 1}
    assert isinstance(flight.unheld({}), Placement)


def test_whoever_had_a_node_is_asked_again_and_may_have_let_go() -> None:
    held = {NodeName("r1-n1"): read_holder(LEASE), NodeName("r1-n2"): read_holder("a stranger")}
    world = World()
    flight = Preflight(task(), fleet(3), world, Deaf(), {}, held)
    assert where(flight.place({})) == ["r1-n[1,3]"], "one that no run of ours has cannot be asked"
    assert world.rounds == ["r1-n1", "r1-n3"]


@pytest.mark.parametrize(("nodes", "got"), [(3, "r1-n[2-3]"), (2, "r1-n[1-2]")])
def test_a_node_to_avoid_is_used_only_where_the_task_does_not_fit_without(nodes: int, got: str) -> None:
    avoided = frozenset((NodeName("r1-n1"),))
    flight = Preflight(task(), fleet(nodes), World(), Deaf(), {}, {}, avoided)
    assert where(flight.place({})) == [got]


def test_a_node_to_avoid_is_used_where_another_is_unfit() -> None:
    flight = Preflight(task(), fleet(3), World(every("r1-n3", HELD)), Deaf(), {}, {}, frozenset((NodeName("r1-n1"),)))
    assert where(flight.place({})) == ["r1-n[1-2]"]
