"""One home for all nodes, as on NFS: what one node writes is in nobody's way on another."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.core.model.actions import Release
from launcher.core.model.observation import Phase
from tests.real.local import REASON, agent, ok
from tests.real_ssh.test_provision import FALSE_RAY, Stand, without_python
from tests.real_ssh.wheels import wheel
from tests.rig import Host, Rig
from tests.rig.witness import until

HOME = "/shared/home"


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """Four hosts whose user has a home that they share."""
    with Rig(1, 4, python=sys.executable, name="home") as made:
        for host in made.hosts.values():
            host.run(["sed", "-i", f"s#/home/{made.user}:#{HOME}:#", "/etc/passwd"])
            host.run(["install", "-d", "-o", made.user, "-m", "0750", HOME])
        yield made


@pytest.fixture
def stand(rig: Rig, tmp_path: Path, user: Path) -> Iterator[Stand]:
    (tmp_path / "home").mkdir()
    made = Stand(tmp_path / "home", rig)
    yield made
    for host in rig.hosts.values():
        if not host.on:
            host.boot()
    for run, _ in made.runs:
        made.down(run)
    next(iter(rig.hosts.values())).run(["sh", "-c", f"rm -rf {HOME}/.nvlaunch {HOME}/*"])
    made.shell.close()


def logs(host: Host) -> list[str]:
    """What each node wrote while it was prepared."""
    found = host.run(
        ["sh", "-c", f"cd {HOME}/.nvlaunch/runs && for f in */*/log/provision.log; do cat $f; echo @; done"]
    )
    return found.stdout.split("@\n")[:-1]


def test_nodes_that_start_together_make_one_environment_and_tear_no_file(stand: Stand, tmp_path: Path) -> None:
    wheels, data = tmp_path / "wheels", tmp_path / "data.json"
    wheel(wheels, "2.60.0", FALSE_RAY)
    data.write_text('{"a": 1}\n' * 100_000)
    fleet = without_python(stand.fleet(env={"PIP_INDEX_URL": "http://127.0.0.1:9/simple"}), wheels=str(wheels))
    setup = "cmp ~/data.json ~/data.json && echo $NVLAUNCH_NODE_RANK >>~/ranks"
    run = stand.place("one", fleet, setup=setup, file_mounts={"~/data.json": str(data)})
    stand.all_ready(run)
    host = stand.host(run, 0)
    assert sum("+ " in log for log in logs(host)) == 1, "one node made it, the others waited and use it"
    assert host.read(f"{HOME}/data.json") == data.read_text()
    left = host.run(["sh", "-c", f"find {HOME} -maxdepth 1 -name '.data*'"]).stdout
    assert (left, host.read(f"{HOME}/ranks").count("\n")) == ("", 3)
    locks = host.run(["sh", "-c", f"cat {HOME}/.nvlaunch/env/.*.lock"]).stdout
    assert any(f"{name} (boot " in locks for name in stand.rig.hosts)


def test_the_end_of_one_run_touches_nothing_of_another_on_other_nodes(stand: Stand) -> None:
    one, other = (stand.place(name, stand.fleet(), setup="echo x >mine") for name in ("one", "other"))
    for at in (0, 1):
        ok(stand.acquire(one, at))
        ok(stand.prepare(one, at))
        assert stand.setup(one, at).phase is Phase.DONE
    ok(stand.acquire(other, 2))
    ok(stand.prepare(other, 2))
    assert stand.setup(other, 2).phase is Phase.DONE
    (killed,) = [p for p in stand.host(other, 2).processes(other.id) if "serve" in p.argv]
    stand.host(other, 2).kill(killed.pid)
    ok(stand.nodes(other).perform(other, Release(reason=REASON, node=other.placement.nodes[2])))
    assert not stand.host(other, 2).processes(other.id)
    seen = stand.nodes(one).look(one)
    for at in (0, 1):
        assert agent(seen, one.placement.nodes[at]).setup.phase is Phase.DONE
        assert stand.host(one, at).read(f"{HOME}/.nvlaunch/runs/{one.id}/{one.placement.nodes[at]}/workdir/mine")


def test_a_builder_that_dies_is_followed_by_another(stand: Stand) -> None:
    slow = "http://10.255.255.1/simple"  # no route: pip waits
    fleet = without_python(stand.fleet(env={"PIP_INDEX_URL": slow, "PIP_TIMEOUT": "60", "UV_INDEX_URL": slow}))
    run = stand.place("half", fleet)
    for at in (0, 1):
        ok(stand.acquire(run, at))
    ok(stand.prepare(run, 0))
    first, second = stand.host(run, 0), stand.host(run, 1)
    until(lambda: _installs(first))
    ok(stand.prepare(run, 1))
    until(lambda: any("interpreter" in process.argv for process in second.processes(run.id)))
    assert not _installs(second)
    first.power_cut()
    until(lambda: _installs(second))
    first.boot()


def _installs(host: Host) -> bool:
    return any("install" in process.argv for process in host.processes())
