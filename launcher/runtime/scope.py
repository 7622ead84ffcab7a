"""A scope of the user's service manager, in which the agent outlives a login."""

import logging
import os
import pwd
import subprocess
from pathlib import Path

LINGERING = "/var/lib/systemd/linger"
"""Where logind has a file for each user who lingers: whose service manager runs without a login."""

LIMIT_S = 5.0
"""Seconds for the service manager's answer."""


def lasting() -> tuple[list[str], dict[str, str]]:
    """Return a command and variables that let a command outlive the session.

    `KillUserProcesses` kills everything in the scope of a session, also for a user who lingers (logind.conf(5)), except
    what runs under that user's service manager. Both are empty where there is none, and for root, whom logind spares.
    """
    uid = os.getuid()
    if uid == 0 or not Path(LINGERING, pwd.getpwuid(uid).pw_name).exists():
        return [], {}
    variables = {"XDG_RUNTIME_DIR": f"/run/user/{uid}"}
    argv = ["systemd-run", "--user", "--scope", "--quiet", "--collect", "--"]
    try:
        told = subprocess.run(
            [*argv, "true"],
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        logging.warning("cannot ask the user's service manager: %s", error)
        return [], {}
    if told.returncode != 0:
        logging.warning("the user's service manager refuses a scope: %s", told.stderr.decode(errors="replace").strip())
        return [], {}
    return [*argv, "env", "-u", "XDG_RUNTIME_DIR"], variables
