"""A node's own words in the question whether it is readmitted: they command no terminal."""

from pathlib import Path

import pytest

from launcher.cli.main import main
from launcher.core.model.nodeset import NodeName
from launcher.core.model.record import Evidence, Record
from launcher.core.model.run import Cause, RunState
from launcher.store.store import Store
from tests.unit.store.test_store import launch


def test_the_words_of_a_node_command_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NVLAUNCH_HOME", str(tmp_path / "home"))
    store = Store(tmp_path / "home")
    run = launch(store)
    words = Evidence(cause=Cause.NODE, message="Xid \x1b]0;owned\x07\x1b[2J")
    record = Record(failed_nodes={NodeName("r1-n00"): words})
    store.intend(run.id, record, (), "bad", RunState.RUNNING, 5.0)
    main(["nodes", "readmit", "r1-n00", "--yes"])
    told = capsys.readouterr().err
    assert "Xid \\x1b]0;owned\\x07\\x1b[2J" in told
    assert "\x1b" not in told
