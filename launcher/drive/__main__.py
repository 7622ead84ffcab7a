"""`python -m launcher.drive HOME RUN`: a detached controller."""

import sys
from pathlib import Path

from launcher.admission.store_retry import ControllerLog
from launcher.core.model.run import RunId
from launcher.drive.collector import collect_seldom
from launcher.drive.control import control
from launcher.errors import LaunchError

if __name__ == "__main__":
    collect_seldom()
    try:
        control(Path(sys.argv[1]), RunId(sys.argv[2]))
    except LaunchError as error:
        ControllerLog()(error.advice)
        sys.exit(error.code)
