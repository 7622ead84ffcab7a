"""`python -m launcher.drive HOME RUN`: the process that a detached controller is."""

import sys
from pathlib import Path

from launcher.core.run import RunId
from launcher.drive.control import control

if __name__ == "__main__":
    control(Path(sys.argv[1]), RunId(sys.argv[2]))
