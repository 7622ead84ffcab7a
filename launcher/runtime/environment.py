"""The environments of a node: the user's and Ray's, which are never mixed.

The user's is for setup and ranks.
"""

import os
import pwd
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from . import protocol_files, shared
from .protocol_files import MAX_LIST, RankSpec, Variables

# Variables kept of the shell that launches on local nodes: others would differ from run to run.
USERS = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_HOME")
ENGINES = ("DOCKER_", "CONTAINER_", "CONTAINERS_", "REGISTRY_AUTH_FILE", "ENROOT_", "APPTAINER_")
"""Beginnings of variables that tell the client of a container engine where its engine and its logins are."""
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy", "ftp_proxy")
FOLDER = "@folder@"
AGENT_MARK = "NVLAUNCH_AGENT"
"""The variable that marks an agent with its run and place."""
MARK = "NVLAUNCH_MARK"
"""The variable that marks each process of a run."""
UMASK = "NVLAUNCH_UMASK"
"""The variable that tells an agent the umask of the login, in octal digits; its own is 077."""
TROUBLE = "NVLAUNCH_LOGIN_TROUBLE"
"""The variable that tells an agent why it has not the variables of a login."""
_OURS = "NVLAUNCH_"
_SLICES = "NVLAUNCH_SLICES"
_ADDRESSES = "NVLAUNCH_NODE_IPS"
_GPUS = "NVLAUNCH_NUM_GPUS_PER_NODE"
MAX_LISTS = 512 * 1024
"""Bytes of all lists; Linux limits arguments and variables to a quarter of the stack (ARG_MAX), 2 MiB by default."""
# Variables of one login session, and those that would be mistaken for Ray's or for ours.
SESSION = ("PWD", "OLDPWD", "SHLVL", "_", "TERM", "MAIL", "MOTD_SHOWN")
SESSIONS = ("SSH_", "XDG_", "DBUS_", "RAY_", "NVLAUNCH_", "SKYPILOT_")


def user(environ: Mapping[str, str], whole: bool = False) -> dict[str, str]:
    """Return the user's own variables out of an environment.

    Nearly all of them where it is a login's (`whole`). The folder of Ray's Python is removed from PATH.
    """
    kept = {name: value for name, value in environ.items() if (_of_login(name) if whole else _of_user(name))}
    entry = pwd.getpwuid(os.getuid())
    defaults = {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name, "SHELL": "/bin/bash"}
    return {**defaults, **kept, "PATH": _without_ray(kept.get("PATH", ""))}


def _of_user(name: str) -> bool:
    return name in USERS or name.startswith(("LC_", *ENGINES)) or name.lower() in PROXIES


def _of_login(name: str) -> bool:
    return name not in SESSION and not name.startswith(SESSIONS)


def _without_ray(path: str) -> str:
    """Return PATH without Ray's virtual environment.

    A `pip install` must not change Ray under a raylet.
    """
    own = os.path.realpath(os.path.dirname(sys.executable)) if sys.prefix != sys.base_prefix else None
    kept = [part for part in path.split(":") if part and os.path.realpath(part) != own]
    return ":".join(kept) or "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def given(folder: Path, variables: Variables) -> dict[str, str]:
    """Return the variables that inventory and task give a program."""
    return protocol_files.given(shared.read(folder, variables["shared"]), variables)


def own(folder: Path, variables: Variables) -> dict[str, str]:
    """Return the variables that nvlaunch gives a program."""
    found = protocol_files.own(shared.read(folder, variables["shared"]), variables)
    return {**lists_in_files(folder, found), **_hostfile(folder, found)}


def _hostfile(folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that names a hostfile of the rank's group, as Open MPI and DeepSpeed read it.

    A line for each node in rank order: `ADDRESS slots=GPUS`. A node without GPUs has one slot: with none, nothing would
    be started there.
    """
    if _ADDRESSES not in variables:
        return {}
    slots = max(1, int(variables.get(_GPUS, "0")))
    text = "".join(f"{address} slots={slots}\n" for address in variables[_ADDRESSES].split("\n"))
    return {"NVLAUNCH_HOSTFILE": str(shared.keep_text(folder, text))}


def lists_in_files(folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables without lists that are too long, and with the file of each list.

    Its path is in `NVLAUNCH_NODE_IPS_FILE` for `NVLAUNCH_NODE_IPS`, and so on.
    """
    lists = sorted((name for name in variables if _is_list(name)), key=lambda name: len(variables[name]))
    files = {f"{name}_FILE": str(shared.keep_text(folder, variables[name])) for name in lists if name.startswith(_OURS)}
    room, kept = MAX_LISTS, set()
    for name in lists:
        size = len(variables[name].encode())
        room -= size
        if size <= MAX_LIST and room >= 0:
            kept.add(name)
    return {**{name: value for name, value in variables.items() if name in kept or name not in lists}, **files}


def _is_list(name: str) -> bool:
    return name == _SLICES or (name.startswith((_OURS, "SKYPILOT_")) and name.endswith("_IPS"))


def whole(folder: Path, variables: Variables) -> dict[str, str]:
    """Return both: those of nvlaunch replace what is given."""
    return {**given(folder, variables), **own(folder, variables)}


def of_rank(folder: Path, spec: RankSpec, base: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a rank; the Python that its spec names comes first in PATH."""
    variables = spec["variables"]
    found = {**base, **given(folder, variables), **secrets, **own(folder, variables)}
    python = spec.get("python") if "PATH" in found else None  # a container has its own, which is not known here
    return {**found, "PATH": f"{os.path.dirname(python)}:{found['PATH']}"} if python else found


def declared(secrets: Mapping[str, str], names: Collection[str] | None) -> dict[str, str]:
    """Return the secrets that a group declares; all of them where a launcher did not say which."""
    return {name: value for name, value in secrets.items() if names is None or name in names}


def driver(spec: RankSpec, folder: Path, python: str) -> RankSpec:
    """Return the spec of a rank that uses Ray itself: with the Python of the run's cluster."""
    variables = spec["variables"]
    mine = {name: value.replace(FOLDER, str(folder)) for name, value in variables["own"].items()}
    return {**spec, "variables": {**variables, "own": mine}, "python": python}


def workers(mine: Mapping[str, str], user: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a raylet whose workers run the user's code, from ours of Ray and the user's.

    Ray's Python stays first, and what is Ray's or ours stays as it is. The GPUs are Ray's to give.
    """
    ours = {name: value for name, value in mine.items() if name.startswith(("RAY_", _OURS))}
    paths = {
        name: ":".join(filter(None, (mine[name].split(":")[0], user.get(name)))) for name in ("PATH", "PYTHONPATH")
    }
    found = {**mine, **user, **ours, **paths}
    found.pop("CUDA_VISIBLE_DEVICES", None)
    return found


def ray(asked: Mapping[str, str], folder: str, scratch: str, python: str) -> dict[str, str]:
    """Return the environment of a Ray process.

    It holds what was asked for, and the least that programs need.
    """
    base = {
        "PATH": f"{os.path.dirname(python)}:/usr/local/bin:/usr/bin:/bin",
        "HOME": scratch,  # a `~/.ray/auth_token` of the user's would change the mode of authentication
        "USER": pwd.getpwuid(os.getuid()).pw_name,
        "LANG": "C.UTF-8",
        "PYTHONPATH": folder,
        "NVLAUNCH_FOLDER": folder,
    }
    return {**base, **{name: value.replace(FOLDER, folder) for name, value in asked.items()}}
