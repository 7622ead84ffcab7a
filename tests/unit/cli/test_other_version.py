"""What another version wrote of one run, in the commands that read: that run is named, and the others are shown."""

import json
from pathlib import Path

import pytest

from launcher.cli.main import main
from launcher.errors import ExitCode
from launcher.store.store import Store
from tests.unit.store.test_store import launch


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("NVLAUNCH_HOME", str(tmp_path / "home"))
    store = Store(tmp_path / "home")
    launch(store, "strange", nodes=1)
    launch(store, "good", nodes=1)
    return store


def change(store: Store, what: str) -> None:
    with store._db.write() as db:
        db.execute(f"UPDATE {what}")


@pytest.mark.parametrize("snapshot", ["{}", "7", "", '{"ranks": [1]}', '{"ranks": 1}'])
def test_status_lists_the_others_and_warns_of_a_snapshot_that_cannot_be_read(
    store: Store, capsys: pytest.CaptureFixture[str], snapshot: str
) -> None:
    change(store, f"runs SET snapshot = '{snapshot}' WHERE name = 'strange'")
    assert main(["status"]) == ExitCode.SUCCESS
    out, err = capsys.readouterr()
    assert ("good" in out, "strange" in out) == (True, False)
    strange = store.find("strange").id
    assert err.count(f"run `{strange}` was written by another version") == 1
    assert main(["status", "-o", "json"]) == ExitCode.SUCCESS
    assert [run["name"] for run in json.loads(capsys.readouterr().out)] == ["good"]
    assert main(["status", "strange"]) == ExitCode.REMOTE
    assert f"run `{strange}` was written by another version" in capsys.readouterr().err


def test_events_show_an_entry_of_another_version_with_its_kind_as_it_is(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    change(store, "journal SET kind = 'paused'")
    assert main(["events", "good"]) == ExitCode.SUCCESS
    assert "  paused       good: 1 slice on 1 node" in capsys.readouterr().out
    assert main(["events", "good", "-o", "json"]) == ExitCode.SUCCESS
    assert [event["kind"] for event in json.loads(capsys.readouterr().out)] == ["paused"]


def test_an_incident_of_another_version_is_read_with_its_kind_as_it_is(store: Store) -> None:
    with store._db.write() as db:
        values = ("hall", "r1-n00", store.find("good").id, 1.0, "dance", "it danced", "")
        db.execute("INSERT INTO incidents VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", values)
    (incident,) = store.ledger.incidents("hall")
    assert (incident.kind.value, incident.message) == ("dance", "it danced")


@pytest.mark.parametrize("command", [["down", "--all", "-y"], ["queue"]])
def test_commands_for_all_runs_name_the_one_that_cannot_be_read(
    store: Store, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    strange = store.find("strange").id
    change(store, "runs SET ended = 1.0, state = 'stopped' WHERE name = 'good'")
    change(store, "runs SET state = 'paused' WHERE name = 'strange'")
    assert main(command) == ExitCode.SUCCESS
    assert f"run `{strange}` was written by another version" in capsys.readouterr().err


def test_an_order_to_a_run_that_cannot_be_read_is_refused_in_words(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    change(store, "runs SET state = 'paused' WHERE name = 'strange'")
    for command in (["down", "strange", "-y"], ["watch", "strange"], ["resume", "strange"], ["logs", "strange"]):
        assert main(command) == ExitCode.REMOTE
        assert "was written by another version" in capsys.readouterr().err
