"""The Python environment that a machine without one is given: which Ray, and from where."""

from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from launcher.core.fleet import Access
from launcher.transport.site import Json

MINOR = "2.60"
"""The minor version of Ray that all of this is written for; an interpreter with another one is refused."""

_OLDEST = f"{MINOR}.0"


def ray() -> str:
    """Answer the exact version for new environments: that of this machine, so that all nodes get the same."""
    try:
        own = metadata.version("ray")
    except metadata.PackageNotFoundError:
        return _OLDEST
    return own if own.startswith(f"{MINOR}.") else _OLDEST


def wanted(access: Access, env: Mapping[str, str]) -> Json | None:
    """Answer a keeper's orders for an environment; None for a machine whose Python is named.

    Wheels come from this machine where it has the folder that is named, else from that machine's own.
    """
    if access.python is not None:
        return None
    return {"ray": ray(), "wheels": _wheels(access.wheels), "env": dict(env)}


def _wheels(folder: str | None) -> Json | None:
    if folder is None:
        return None
    here = Path(folder).expanduser()
    if not here.is_dir():
        return {"at": folder}
    return {"sent": sorted((entry.name, entry.stat().st_size) for entry in here.iterdir())}
