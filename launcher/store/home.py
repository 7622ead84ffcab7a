"""Where runs are stored: `$NVLAUNCH_HOME`, else `~/.nvlaunch`."""

import os
from pathlib import Path

from launcher.errors import refuse


def home() -> Path:
    """Return the folder that runs are stored in.

    SpecError where it belongs to an unknown user.
    """
    given = os.environ.get("NVLAUNCH_HOME")
    try:
        return Path(given).expanduser().absolute() if given else Path.home().absolute() / ".nvlaunch"
    except RuntimeError:  # `~name` without such a user, or no `$HOME` and no line in passwd(5)
        what = f"cannot resolve `{given}`" if given else "this user has no home folder"
        refuse(what, hint="set `NVLAUNCH_HOME` to a folder that you can write to")
