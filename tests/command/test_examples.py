"""Every example runs to its end on an imaginary fleet, and so does the smoke test for CI, command by command."""

import shlex
from pathlib import Path

import pytest
import yaml

from launcher.config.templates import EXAMPLES
from tests.desk import Desk

ROOT = Path(__file__).parents[2]
FLEET = (ROOT / "examples" / "fleet-9xnvl72.yaml").read_text().replace("speed: 60", "speed: inf")
WORKFLOW = yaml.safe_load((ROOT / "examples" / "github-workflow.yml").read_text())


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, FLEET)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_to_its_end(desk: Desk, name: str) -> None:
    assert "speed: inf" in FLEET
    up = desk.run("up", f"{ROOT}/examples/{name}.yaml", "-i", str(desk.inventory), "-y", "--foreground")
    assert up.returncode == 0, up.stderr
    assert "succeeded" in up.stderr


def test_the_smoke_test_for_ci_passes_and_tells_how_the_run_ended(desk: Desk) -> None:
    job = WORKFLOW["jobs"]["task"]
    meant = {"$TASK": f"{ROOT}/{job['env']['TASK']}", "$FLEET": str(desk.inventory)}
    assert (ROOT / job["env"]["FLEET"]).is_file()
    steps = [shlex.split(step["run"]) for step in job["steps"] if step.get("run", "").startswith("nvlaunch ")]
    told = [desk.run(*(meant.get(word, word) for word in words)) for _, *words in steps]
    assert [one.returncode for one in told] == [0] * 4, [one.stderr for one in told]
    assert '"state": "succeeded"' in told[-1].stdout
