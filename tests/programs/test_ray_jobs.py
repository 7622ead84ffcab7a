"""Ray's dashboard and jobs as people use them who know Ray: a job through a forwarded port, with the run's token."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs.stage import Program
from tests.rig import Rig

JOB_S = 240
JOB = """
import ray
ray.init()
@ray.remote(num_gpus=2)
def where():
    return ray.get_runtime_context().get_node_labels()["nvlaunch.io/slot"]
print("ran on", sorted(ray.get([where.remote() for _ in range(2)])))
"""


@pytest.fixture
def program(rig: Rig, tmp_path: Path) -> Iterator[Program]:
    made = Program(rig, tmp_path, "ray-jobs")
    yield made
    made.clear()


def test_a_job_runs_through_the_printed_port_with_the_token_of_the_run(program: Program, tmp_path: Path) -> None:
    program.up({"driver": "sleep 100000"}, dashboard=True)
    program.desk.until(program.name, lambda seen: seen["state"] == "running" and seen["dashboard"] is not None)
    shown = program.desk.run("status", program.name).stdout
    forward = re.search(r"`(ssh -N -L 8265:127\.0\.0\.1:\d+ .*)`, then http", shown)
    token = re.search(r"token for it and for `ray job submit`: (.*)", shown)
    assert forward, shown
    assert token, shown
    command = shlex.split(forward[1])
    ours = ["-o", f"UserKnownHostsFile={program.rig.folder}/known_hosts", "-o", "ExitOnForwardFailure=yes"]
    with subprocess.Popen([command[0], *ours, *command[1:]], stdin=subprocess.DEVNULL) as tunnel:
        try:
            assert _refused("http://127.0.0.1:8265/api/jobs/") == 401
            (tmp_path / "work").mkdir()
            (tmp_path / "work" / "job.py").write_text(JOB)
            submit = [sys.executable, "-m", "ray.scripts.scripts", "job", "submit", "--working-dir", "."]
            env = {"RAY_ADDRESS": "http://127.0.0.1:8265", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": token[1]}
            done = subprocess.run(
                [*submit, "--", "python", "job.py"], cwd=tmp_path / "work", env={**os.environ, **env},
                capture_output=True, text=True, timeout=JOB_S,
            )  # fmt: skip
        finally:
            tunnel.send_signal(signal.SIGTERM)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ran on ['main-0', 'main-1']" in done.stdout + done.stderr


def _refused(url: str) -> int:
    """Return the status with which a server refuses us, once it listens."""
    end = time.monotonic() + JOB_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as reply:
                return int(reply.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            assert time.monotonic() < end
