"""Runs the setups of several groups on one node, one after the other.

Each has its own group's variables.
"""

import os
import subprocess
from pathlib import Path

from . import environment, files

SETUPS = "setups.json"
"""The file in a run's folder that lists them."""


def main(argv: list[str]) -> int:
    """Run the setups of a folder: `setups FOLDER`.

    The first that fails ends it with its own exit status.
    """
    folder = Path(argv[0])
    for setup in (files.read(folder / SETUPS) or {"setups": []})["setups"]:
        env = {**os.environ, **environment.whole(folder, setup["variables"])}
        code = subprocess.run(["bash", str(folder / setup["script"])], env=env).returncode
        if code != 0:
            return code if code > 0 else 128 - code
    return 0
