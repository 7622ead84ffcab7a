"""What a newcomer types first: starter files, an imported inventory, a look at a node."""

import resource
from pathlib import Path

import pytest

from launcher.cli.main import main
from launcher.errors import ExitCode


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NVLAUNCH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NVLAUNCH_INVENTORY", raising=False)


def test_a_disk_that_is_full_leaves_no_half_of_a_starter_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        assert main(["init", "job"]) == ExitCode.USAGE
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "cannot write to `job`: file too large" in capsys.readouterr().err
    assert list((tmp_path / "job").iterdir()) == []
    assert main(["init", "job"]) == ExitCode.SUCCESS
    assert (tmp_path / "job/task.yaml").read_text()


def test_an_import_says_each_hint_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "topology.conf").write_text("BlockName=r01 Nodes=r01-n[1-4]\n#BlockName=r02 Nodes=r02-n[1-4]\n")
    assert main(["inventory", "import", "topology.conf", "-o", "inventory.yaml"]) == ExitCode.SUCCESS
    assert capsys.readouterr().err.count("remove the `#` to import its nodes") == 1


def test_a_node_that_no_inventory_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nodes", "r1-n9"]) == ExitCode.USAGE
    assert "no node or rack is named `r1-n9`" in capsys.readouterr().err
    assert main(["nodes", "r1-n1"]) == ExitCode.SUCCESS
    assert "no incidents, quarantines or drains" in capsys.readouterr().err


def test_a_check_of_the_built_in_racks_asks_for_an_inventory_that_has_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == ExitCode.USAGE
    assert "hint: name an inventory that has some with `-i`" in capsys.readouterr().err
