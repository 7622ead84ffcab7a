"""The wheel alone, in an empty environment, used from another folder: nothing of the checkout helps it."""

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AMPLE_S = 280.0

TASK = """
name: alone
resources: {accelerators: GB300:4}
run: echo "rank $NODE_RANK in rack $NVLAUNCH_RACK"
"""


class Installed:
    """An environment with nothing but the wheel and what it asks for, and a folder to work in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "elsewhere"
        self.folder.mkdir()
        self.bin = folder / "venv" / "bin"
        self.home = folder / "home"
        # No PYTHONPATH: an import that only works in the checkout has to fail here.
        self.env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "NVLAUNCH"))}
        self.env["NVLAUNCH_HOME"] = str(self.home)

    def run(self, *args: str) -> "subprocess.CompletedProcess[str]":
        command = [str(self.bin / "nvlaunch"), *args]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.env,
            text=True,
            capture_output=True,
            timeout=AMPLE_S,
            stdin=subprocess.DEVNULL,
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder / "dist", ROOT], check=True, timeout=AMPLE_S)
    (wheel,) = (folder / "dist").glob("nvlaunch-*.whl")
    venv.create(folder / "venv", with_pip=True)
    own_pip = [folder / "venv" / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*own_pip, "install", wheel], check=True, timeout=AMPLE_S)
    made = Installed(folder)
    yield made
    made.run("down", "--all", "-y")


def test_it_says_its_version_and_helps(installed: Installed) -> None:
    assert installed.run("--version").stdout.split()[-1][0].isdigit()
    assert "nvlaunch up" in installed.run("--help").stdout + installed.run("up", "--help").stdout


def test_it_brings_its_templates_and_reads_them(installed: Installed) -> None:
    assert installed.run("init").returncode == 0
    written = sorted(path.name for path in installed.folder.iterdir())
    assert {"task.yaml", "inventory.yaml"} <= set(written)
    assert installed.run("init", "like", "--like", "torchrun").returncode == 0
    assert "torchrun" in (installed.folder / "like" / "task.yaml").read_text()
    checked = installed.run("validate", "task.yaml", "like/task.yaml")
    assert checked.returncode == 0, checked.stderr


def test_it_runs_the_main_job_on_local_racks(installed: Installed) -> None:
    (installed.folder / "alone.yaml").write_text(TASK)
    up = installed.run("up", "-y", "alone.yaml", "-i", "built-in")
    assert up.returncode == 0, up.stderr
    shown = json.loads(installed.run("status", "alone", "-o", "json").stdout)
    assert [rank["state"] for rank in shown[0]["ranks"]] == ["finished"]
    assert "rank 0 in rack r1" in installed.run("logs", "alone").stdout
