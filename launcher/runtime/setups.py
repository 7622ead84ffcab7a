"""Runs the setups of the groups on one node, one after the other.

Each has its own group's variables and secrets.
"""

import os
import subprocess
from pathlib import Path
from typing import cast

from . import environment, files, rpc, start_files
from .protocol import PROTOCOL, EnvironmentReply
from .protocol_files import SetupStep

SETUPS = "setups.json"
"""The file in a run's folder that lists them."""

NO_AGENT = 4


def main(argv: list[str]) -> int:
    """Run the setups of a folder: `setups FOLDER`.

    The first that fails ends it with its own exit status.
    """
    folder = Path(argv[0])
    agent = files.agent_spec(folder)
    if agent is None:
        return NO_AGENT
    given = cast(
        "EnvironmentReply", rpc.ask(Path(agent["socket"]), {"op": "environment", "protocol": PROTOCOL}, timeout=10)
    )
    secrets = files.read(Path(given["secrets"])) or {}
    for setup in (files.read(folder / SETUPS) or {"setups": []})["setups"]:
        code = _run(folder, setup, given, secrets)
        if code != 0:
            return code if code > 0 else 128 - code
    return 0


def _run(folder: Path, setup: SetupStep, given: EnvironmentReply, secrets: dict[str, str]) -> int:
    start = start_files.of_agent(given, os.environ[environment.MARK])
    if start.trouble:
        print(f"nvlaunch: {start.trouble}", flush=True)
    env = {
        **start.script,
        **start.env,
        **environment.whole(folder, setup["variables"]),
        **environment.declared(secrets, setup.get("secrets")),
        environment.MARK: os.environ[environment.MARK],
    }
    argv = [start_files.bash(given["base"]), str(folder / setup["script"])]
    return subprocess.run(argv, env=env, umask=start.umask).returncode
