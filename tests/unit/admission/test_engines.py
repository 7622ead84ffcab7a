"""The engine of a run's containers: the same on all nodes, and why a node is passed over."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from launcher.admission.node_checks import HEAD
from launcher.core.model.container import Container, Engine
from launcher.core.model.inventory import Access
from launcher.core.model.nodeset import expand
from launcher.core.model.placement import Shortfall
from launcher.core.model.task import Task
from launcher.errors import ProvisionError
from launcher.probe.containers import ContainerHost, EngineInfo
from launcher.probe.node_facts import Facts
from launcher.probe.system import Interpreter
from tests.facts import FACTS
from tests.unit.admission.test_preflight import World, fleet, preflight, task, where

NO_DOCKER, NO_PODMAN = "`docker` not found", "the user may not use `podman`"


def having(docker: str = "", podman: str = "") -> Facts:
    return replace(FACTS, engines={Engine.DOCKER: docker, Engine.PODMAN: podman})


def contained(work: Task, engine: Engine | None = None, image: str = "box:1") -> Task:
    container = Container(image=image, engine=engine)
    return replace(work, groups=tuple(replace(group, container=container) for group in work.groups))


def world(**facts: Facts) -> World:
    """Nodes of r1 by the end of their names; all others have both engines."""
    both: Mapping[str, Facts] = dict.fromkeys(expand("r1-n[1-4]"), having())
    return World({**both, **{f"r1-{name}": one for name, one in facts.items()}})


BOTH, ONLY_DOCKER, ONLY_PODMAN, NEITHER = (
    having(),
    having(podman=NO_PODMAN),
    having(docker=NO_DOCKER),
    having(docker=NO_DOCKER, podman=NO_PODMAN),
)


@pytest.mark.parametrize(
    ("of_group", "of_inventory", "nodes", "engine", "placed"),
    [
        (None, None, {}, Engine.DOCKER, "r1-n[1-2]"),
        (None, None, {"n1": ONLY_PODMAN}, Engine.PODMAN, "r1-n[1-2]"),
        (None, None, {"n1": NEITHER}, Engine.DOCKER, "r1-n[2-3]"),
        (None, Engine.PODMAN, {"n1": ONLY_DOCKER}, Engine.PODMAN, "r1-n[2-3]"),
        (Engine.PODMAN, None, {"n2": ONLY_DOCKER}, None, "r1-n[1,3]"),
    ],
    ids=["first", "first-that-all-have", "without-any", "of-the-inventory", "of-the-group"],
)
def test_all_nodes_have_the_engine_of_the_run(
    of_group: Engine | None,
    of_inventory: Engine | None,
    nodes: dict[str, Facts],
    engine: Engine | None,
    placed: str,
) -> None:
    flight = preflight(contained(task(), of_group), fleet(4, container_engine=of_inventory), world(**nodes))
    assert where(flight.place({})) == [placed]
    assert flight.fleet.container_engine is engine


def test_a_refusal_says_what_each_node_lacks_and_what_to_do() -> None:
    flight = preflight(contained(task()), fleet(2), world(n1=NEITHER, n2=NEITHER))
    assert isinstance(flight.place({}), Shortfall)
    assert flight.unhealthy["r1-n1"].startswith(
        f"containers: no engine can be used ({NO_PODMAN}; not installed: docker, enroot, apptainer): install"
    )


def test_a_node_whose_engine_gives_no_gpus_is_passed_over() -> None:
    bare = replace(
        having(), container_host=ContainerHost(), engine_infos={Engine.DOCKER: EngineInfo(runtimes=("runc",))}
    )
    flight = preflight(contained(task(), Engine.DOCKER), fleet(3), world(n1=bare))
    assert where(flight.place({})) == ["r1-n[2-3]"]
    assert "install `nvidia-container-toolkit`" in flight.unhealthy["r1-n1"]


def test_an_engine_without_gpus_is_not_chosen() -> None:
    described = ContainerHost(cdi=("/etc/cdi/nvidia.yaml",))
    bare = replace(having(), container_host=described, engine_infos={Engine.DOCKER: EngineInfo(runtimes=("runc",))})
    flight = preflight(contained(task()), fleet(2), world(n1=bare, n2=bare))
    assert where(flight.place({})) == ["r1-n[1-2]"]
    assert flight.fleet.container_engine is Engine.PODMAN


def test_nodes_without_an_engine_run_tasks_without_containers() -> None:
    flight = preflight(task(), fleet(2), world(n1=NEITHER, n2=NEITHER))
    assert where(flight.place({})) == ["r1-n[1-2]"]
    assert flight.fleet.container_engine is None


def test_the_machine_for_heads_needs_no_engine() -> None:
    machines = fleet(2, head=Access(address="10.9.9.9"), container_engine=Engine.DOCKER)
    work = World({**dict.fromkeys(expand("r1-n[1-2]"), having()), HEAD: NEITHER})
    assert where(preflight(contained(task()), machines, work).place({})) == ["r1-n[1-2]"]


def driven(work: Task) -> Task:
    return replace(work, groups=tuple(replace(group, run="", driver="python train.py") for group in work.groups))


def test_the_machine_for_heads_needs_the_engine_where_ray_is_that_of_an_image() -> None:
    machines = fleet(2, head=Access(address="10.9.9.9"), container_engine=Engine.DOCKER)
    flight = preflight(
        driven(contained(task())), machines, World({**dict.fromkeys(expand("r1-n[1-2]"), having()), HEAD: NEITHER})
    )
    with pytest.raises(ProvisionError) as refusal:
        flight.place({})
    assert NO_DOCKER in f"{refusal.value} {refusal.value.hints}"


def test_nodes_need_no_ray_where_it_is_that_of_an_image() -> None:
    python = Interpreter(version=(3, 12, 3), executable="/opt/ray/bin/python", machine="aarch64", ray=None)
    bare = replace(having(), python=python)
    assert isinstance(preflight(contained(task()), fleet(2), world(n1=bare, n2=bare)).place({}), Shortfall)
    assert where(preflight(driven(contained(task())), fleet(2), world(n1=bare, n2=bare)).place({})) == ["r1-n[1-2]"]
