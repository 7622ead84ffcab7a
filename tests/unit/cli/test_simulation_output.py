"""The command `simulate`: its report, its JSON, and what it refuses."""

import json
from pathlib import Path

import pytest

from launcher.cli.main import main
from launcher.errors import ExitCode

JOBS = "arrival_s,gpus,duration_s\n0,16,7200\n600,8,3600\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NVLAUNCH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "a.yaml").write_text("spares: 0\n")
    (tmp_path / "b.yaml").write_text("name: wide\nspares: 2\nspares_from: 1\n")
    return tmp_path


def test_two_policies_are_shown_side_by_side(home: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    words = ["simulate", "--racks", "1", "--nodes", "8", "--days", "1", "--jobs", "jobs.csv", "--compare"]
    assert main([*words, "a.yaml", "b.yaml"]) == ExitCode.SUCCESS
    shown = capsysbinary.readouterr().out.decode()
    assert shown.startswith("imaginary: 1 rack, 8 nodes, 1 day, 1 seed\njobs: 2 a seed, from a file\n")
    assert "GPU TIME                         a         wide\n" in shown
    assert "wide against a: " in shown
    assert "waits until the first start of `wide`:" in shown


def test_json_has_every_measure(home: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["simulate", "--racks", "1", "--days", "1", "--jobs", "jobs.csv", "-o", "json"]) == ExitCode.SUCCESS
    told = json.loads(capsysbinary.readouterr().out)
    (policy,) = told["policies"]
    assert sum(share["mean"] for share in policy["gpu_time"].values()) == pytest.approx(1, abs=1e-4)
    assert [line["gpus"] for line in policy["seeds"][0]["waits"]] == [8, 16]
    assert len(policy["seeds"][0]["samples"]) == 240


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--racks", "2000"], "the imaginary fleet has more than 20,000 nodes"),
        (["--nodes", "4"], "`--nodes` describes an imaginary fleet"),
        (["--racks", "1", "--days", "0"], "0 days cannot be simulated"),
        (["--racks", "1", "--days", "1e3"], "`1e3` is not a number"),
        (["--racks", "1", "--days", "500"], "500 days cannot be simulated"),
        (["--racks", "1", "--seeds", "101"], "101 seeds cannot be simulated"),
        (["--racks", "1", "--load", "3"], "a load of 3 cannot be simulated"),
        (["--racks", "1", "--mix", "frontier"], "`frontier` is not one of `kalos`, `seren`"),
        (["--racks", "1", "--faults", "often"], "`often` is neither a published rate"),
        (["--racks", "1", "--mix", "seren", "--jobs", "jobs.csv"], "`--mix`, `--jobs` and `--task` exclude each other"),
        (["--racks", "1", "--duration", "1d"], "`--duration` is that of a task"),
        (["--racks", "1", "--nodes", "3", "--jobs", "jobs.csv"], "a job of 16 GPUs has no room in the empty fleet"),
        (["--racks", "1", "--policy", "none.yaml"], "no such file"),
        (["--racks", "1", "--compare", "a.yaml", "a.yaml"], "both policies have the name `a`"),
        (["--racks", "1", "-i", "x.yaml"], "`--inventory` and `--racks` exclude each other"),
    ],
)
def test_what_cannot_be_simulated_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["simulate", *words]) == ExitCode.USAGE
    assert message in capsys.readouterr().err
