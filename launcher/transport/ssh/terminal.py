"""The system's own `ssh` at a terminal, with the settings of a machine.

Its route, its host key, its login.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

from launcher.transport.ssh import command
from launcher.transport.ssh.config import Settings


def argv(settings: Settings, own: Path, remote: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments that run a command on a machine at a terminal.

    `own` is our known_hosts file. The host keys of the machine and of those on the way must be in the known_hosts files
    already: `ssh` asks for none.
    """
    return ("ssh", "-t", *_options(settings, own), "--", settings.address, command.terminal(remote, settings.user))


def _options(settings: Settings, own: Path) -> list[str]:
    known = " ".join(f'"{path}"' for path in (*settings.known_hosts, str(own)))
    options = {
        "HostName": settings.hostname,
        "Port": str(settings.port),
        "User": settings.user,
        "UserKnownHostsFile": known,
        "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no",
        "BatchMode": "no",
        **_way(settings, own),
    }
    words = [f"{key}={value}" for key, value in options.items()]
    words += [f'IdentityFile="{path}"' for path in settings.identities]
    words += [f'CertificateFile="{path}"' for path in settings.certificates]
    return [word for option in words for word in ("-o", option)]


def _way(settings: Settings, own: Path) -> dict[str, str]:
    """Return the options for the route.

    `ssh -J` would pass none of our options to the jump hosts.
    """
    if settings.via is not None:
        hop = ["ssh", *_options(settings.via, own), "-W"]
        plain = shlex.join(hop).replace("%", "%%")
        return {"ProxyCommand": f"{plain} '[%h]:%p' -- {shlex.quote(settings.via.address)}"}
    if settings.proxy_command is not None:
        return {"ProxyCommand": settings.proxy_command.replace("%", "%%")}
    return {"ProxyJump": "none"}
