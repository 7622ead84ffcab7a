"""The user's files on local nodes: through the port, into the folder of a run, before its setup."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.admission.run_files import weigh
from launcher.cli.output import admission
from launcher.core.model.actions import Acquire, Prepare, Release
from launcher.core.model.inventory import Transport
from launcher.core.model.observation import Phase
from launcher.core.model.receipt import Result
from launcher.core.model.run import Run, RunId
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.store.run_files import secrets_file, write_secrets
from tests.real import local
from tests.real.local import REASON, Stand, agent, ok


@pytest.fixture
def stand(home: Path, tmp_path: Path) -> Iterator[Stand]:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text("print()")
    (tmp_path / "config.json").write_text("{}")
    mounts = {"conf/": str(tmp_path / "config.json")}
    group = Group(name="main", topology=TopologyRule(), run="true", setup="cat train.py conf/config.json > joined")
    run = local.place(local.inventory(home, racks=1, nodes=2), "files", group)
    task = replace(run.task, workdir=str(tmp_path / "work"), file_mounts=mounts)
    made = Stand(home, replace(run, task=task))
    yield made
    for node in made.run.placement.nodes:
        ok(made.nodes.perform(made.run, Release(reason=REASON, node=node)))


def workdir(stand: Stand, run: Run, at: int) -> Path:
    return stand.home / "nodes" / run.placement.nodes[at] / run.id / "workdir"


def test_setup_runs_in_the_workdir_with_the_mounts_in_it_and_later_nodes_get_the_same(
    stand: Stand, tmp_path: Path
) -> None:
    for at, slot in enumerate(stand.slots):
        ok(stand.nodes.perform(stand.run, Acquire(reason=REASON, node=slot.node)))
        ok(stand.nodes.perform(stand.run, Prepare(reason=REASON, node=slot.node, member=slot.member)))
        stand.until(lambda seen, node=slot.node: agent(seen, node).setup.phase is Phase.DONE)  # type: ignore[misc]
        assert (workdir(stand, stand.run, at) / "joined").read_text() == "print(){}"
        (tmp_path / "work" / "train.py").write_text("edited")


def test_a_node_that_comes_back_gets_its_secrets_again_and_only_a_failed_setup_anew(
    stand: Stand, tmp_path: Path
) -> None:
    setup = f'echo "$TOKEN" >> {tmp_path}/setups; test -e {tmp_path}/fixed'
    task = replace(stand.run.task, groups=(replace(stand.run.task.groups[0], setup=setup),), secrets=("TOKEN",))
    run = stand.run = replace(stand.run, id=RunId("back"), task=task)
    write_secrets(secrets_file(stand.home, run.id), {"TOKEN": "s3cret"})
    slot = stand.slots[0]

    def prepare() -> Phase:
        ok(stand.nodes.perform(run, Acquire(reason=REASON, node=slot.node)))
        assert agent(stand.nodes.look(run), slot.node).setup.phase is Phase.ABSENT
        ok(stand.nodes.perform(run, Prepare(reason=REASON, node=slot.node, member=slot.member)))
        ended = (Phase.DONE, Phase.FAILED)
        seen = stand.until(lambda seen: agent(seen, slot.node).setup.phase in ended)
        (own,) = Path("/dev/shm").glob("nvl-*/secrets.json")
        assert own.read_text() == '{"TOKEN": "s3cret"}'
        ok(stand.nodes.perform(run, Release(reason=REASON, node=slot.node)))
        return agent(seen, slot.node).setup.phase

    assert prepare() is Phase.FAILED
    (tmp_path / "fixed").touch()
    assert [prepare(), prepare()] == [Phase.DONE, Phase.DONE]
    assert (tmp_path / "setups").read_text() == "s3cret\n" * 2


def test_files_that_are_gone_are_an_answer_that_names_them(stand: Stand, tmp_path: Path) -> None:
    lost = replace(stand.run, task=replace(stand.run.task, workdir=str(tmp_path / "gone")))
    lost = replace(lost, id=type(lost.id)("lost"))
    slot = stand.slots[0]
    ok(stand.nodes.perform(lost, Acquire(reason=REASON, node=slot.node)))
    answer = stand.nodes.perform(lost, Prepare(reason=REASON, node=slot.node, member=slot.member))
    ok(stand.nodes.perform(lost, Release(reason=REASON, node=slot.node)))
    assert answer.result is Result.FAILED
    assert answer.message == f"workdir `{tmp_path / 'gone'}` does not exist"


def test_what_goes_to_each_node_is_said_before_and_much_of_it_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name in ("a.py", "b.py", "c.o"):
        (tmp_path / name).write_bytes(b"x" * 500_000)
    (tmp_path / ".gitignore").write_text("*.o\n")
    os.mkfifo(tmp_path / "pipe")
    group = Group(name="main", topology=TopologyRule())
    task = Task(name="job", groups=(group,), workdir=str(tmp_path), file_mounts={"more": str(tmp_path / "c.o")})
    fleet, report = local.inventory(tmp_path, racks=1, nodes=1), admission.AdmissionReport()
    weigh(report, task, fleet)
    assert capsys.readouterr().err == (
        "to each node: 4 files, 1.5 MB, 1 ignored\n"
        f"  workdir `{tmp_path}`: 3 files, 1.0 MB\n"
        f"  `{tmp_path}/c.o` to `more`: 1 file, 500.0 kB\n"
        f"warning: not copied, because they are sockets, pipes or devices: `{tmp_path}/pipe`\n"
    )
    monkeypatch.setattr(admission, "MANY_FILES", 3)
    weigh(report, task, fleet)
    assert "warning: copying 4 files, 1.5 MB, 1 ignored to each node takes a while" in capsys.readouterr().err
    weigh(report, task, replace(fleet, transport=Transport.SIM))
    assert not capsys.readouterr().err
