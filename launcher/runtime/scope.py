"""A place for the agent that outlives our logins: a scope of the user's own service manager."""

import logging
import os
import pwd
import subprocess
from pathlib import Path

LINGERING = "/var/lib/systemd/linger"
"""Where logind keeps who lingers, a file for each user: whose service manager stays without a login."""

LIMIT_S = 5.0
"""Seconds for the service manager's answer."""


def lasting() -> tuple[list[str], dict[str, str]]:
    """Return what stands before a command that has to outlive our last session, and the variables that it needs.

    `KillUserProcesses` ends whatever is in the scope of a session, also of a user who lingers (logind.conf(5)): only
    what the service manager of such a user was asked to keep stays. Nothing where there is none, and for root, whom
    logind leaves alone.
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
        logging.warning("the user's service manager cannot be asked: %s", error)
        return [], {}
    if told.returncode != 0:
        logging.warning("the user's service manager keeps nothing: %s", told.stderr.decode(errors="replace").strip())
        return [], {}
    return [*argv, "env", "-u", "XDG_RUNTIME_DIR"], variables
