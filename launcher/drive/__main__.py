"""`python -m launcher.drive HOME RUN`: the process that a detached controller is."""

import sys
from pathlib import Path

from launcher.admission.store_retry import Log
from launcher.core.model.run import RunId
from launcher.drive.control import control
from launcher.errors import LaunchError

if __name__ == "__main__":
    try:
        control(Path(sys.argv[1]), RunId(sys.argv[2]))
    except LaunchError as error:
        Log()(error.advice)
        sys.exit(error.code)
