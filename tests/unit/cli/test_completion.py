"""What a shell completes after options that name a part of a run."""

from pathlib import Path

import pytest

from launcher.cli.main import main
from launcher.core.control.status import RankState, RankStatus, RunStatus
from launcher.core.model.inventory import RackName
from launcher.core.model.nodeset import NodeName
from launcher.store.store import Store
from tests.unit.store.test_store import a_status, launch


def completed(words: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> list[str]:
    monkeypatch.setenv("_NVLAUNCH_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    with pytest.raises(SystemExit):
        main([])
    return capfd.readouterr().out.split()


def rank(group: str, number: int) -> RankStatus:
    return RankStatus(
        group=group,
        slice=number // 2,
        rank=number,
        node=NodeName(f"{group}-n{number}"),
        rack=RackName("r1"),
        domain=None,
        state=RankState.RUNNING,
        exit_code=None,
    )


@pytest.fixture
def status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunStatus:
    monkeypatch.setenv("NVLAUNCH_HOME", str(tmp_path))
    store = Store(tmp_path)
    run = launch(store)
    status = a_status(run, ranks=tuple(rank("main", number) for number in range(3)))
    store.publish(run.id, status)
    return status


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("logs job --rank ", ["0", "1", "2"]),
        ("exec job --rank 2", ["2"]),
        ("exec job --slice ", ["main.s0", "main.s1"]),
        ("logs job --node main-n", ["main-n0", "main-n1", "main-n2"]),
        ("logs other --rank ", []),
        ("up task.yaml --rank ", ["all", "none", "0"]),
    ],
)
def test_parts_of_a_run_complete(
    words: str, found: list[str], status: RunStatus, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert completed(f"nvlaunch {words}", monkeypatch, capfd) == found


def test_ranks_of_several_groups_complete_with_their_group(
    status: RunStatus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path)
    run = store.find(status.name)
    store.publish(run.id, a_status(store.load(run.id)[0], ranks=(rank("actor", 0), rank("critic", 0))))
    assert completed("nvlaunch logs job --rank c", monkeypatch, capfd) == ["critic/0"]
