"""The Python environment for a machine whose inventory names no Python."""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path

from launcher.core.model.inventory import Access
from launcher.runtime.protocol_files import InterpreterSpec, WheelsSpec
from launcher.transport.upload import files

MINOR = "2.60"
"""The minor release of Ray that nvlaunch is written for; an interpreter with an older one is refused."""

_OLDEST = f"{MINOR}.0"


def ray() -> str:
    """Return the version of Ray for new environments.

    That of this machine, so that all nodes get the same.
    """
    try:
        own = metadata.version("ray")
    except metadata.PackageNotFoundError:
        return _OLDEST
    return own if own.startswith(f"{MINOR}.") else _OLDEST


def wanted(access: Access, env: Mapping[str, str], *, dashboard: bool = False) -> InterpreterSpec | None:
    """Return the environment that an agent has to make, with what a dashboard needs if it is for one.

    None for a machine whose Python is named. Its wheels are the machine's own where it has the folder that is named,
    else those of this machine.
    """
    if access.python is not None:
        return None
    spec: InterpreterSpec = {"ray": ray(), "wheels": _wheels(access.wheels), "env": dict(env)}
    return {**spec, "extra": "default"} if dashboard else spec


def _wheels(folder: str | None) -> WheelsSpec | None:
    if folder is None:
        return None
    here = files.expanded(folder)
    own = None
    if here.is_dir():
        found = [(here / name, (here / name).stat()) for name in files.wheels_in(here)]
        own = [(path.name, _hash(path, at.st_mtime_ns, at.st_size)) for path, at in found]
    return {"at": folder, "sent": own}


@cache
def _hash(path: Path, _changed: int, _size: int) -> str:
    """Return the hash of a file's contents; it is read again when it has changed."""
    with path.open("rb") as file:
        digest = sha256()
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()[:16]
