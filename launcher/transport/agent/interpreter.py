"""The Python environment that a machine without one is given: which Ray, and from where."""

from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from launcher.core.model.inventory import Access
from launcher.transport.agent.client import Json

MINOR = "2.60"
"""The Ray that all of this is written for; an interpreter with an older one is refused."""

_OLDEST = f"{MINOR}.0"


def ray() -> str:
    """Return the exact version for new environments: that of this machine, so that all nodes get the same."""
    try:
        own = metadata.version("ray")
    except metadata.PackageNotFoundError:
        return _OLDEST
    return own if own.startswith(f"{MINOR}.") else _OLDEST


def wanted(access: Access, env: Mapping[str, str]) -> Json | None:
    """Return an agent's orders for an environment; None for a machine whose Python is named.

    Wheels are its own where it has the folder that is named, else those of this machine.
    """
    if access.python is not None:
        return None
    return {"ray": ray(), "wheels": _wheels(access.wheels), "env": dict(env)}


def _wheels(folder: str | None) -> Json | None:
    if folder is None:
        return None
    here = Path(folder).expanduser()
    own = sorted([entry.name, entry.stat().st_size] for entry in here.iterdir()) if here.is_dir() else None
    return {"at": folder, "sent": own}
