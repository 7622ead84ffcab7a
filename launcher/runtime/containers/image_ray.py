"""The Ray of an image: which it is, and how a part of a run's Ray is started from it and followed.

Ray's parts, a driver and its workers must have one Ray and one Python: those of the driver's image.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from ..environment import MARK
from .engines import EngineError
from .enter import Place

FIND_S = 120.0
"""Seconds in which an image says which Ray it has: the first program of a large image may be slow."""

# The first Python in PATH that has Ray: itself, its version and that of Ray, one a line, in the file $1.
_FIND = """for one in python3 python; do
    "$one" -c 'import sys
from importlib.metadata import version
print(sys.executable, sys.version.split()[0], version("ray"), sep=chr(10))' >"$1" 2>/dev/null && exit 0
done
: >"$1"
"""

SMALL_LOGS = {"RAY_ROTATION_MAX_BYTES": "8000000", "RAY_ROTATION_BACKUP_COUNT": "1"}
"""The size of the logs of a head whose folder is in memory (bytes, older ones kept)."""

_INSTEAD = (
    "use an image with it, let `setup` install it (`pip install ray=={minor}.0`), or write `run:` instead of "
    "`driver:` and start the image's own Ray there: docs/containers.md has the lines"
)


def find(place: Place, own: Path, mark: str, minor: str) -> str:
    """Return the Python of a container that has Ray of this minor release or a later one; EngineError.

    Ray is read, not imported. `own` is a folder in memory for the files of this question.
    """
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    answer = own / "ray"
    argv = ["sh", "-c", _FIND, "sh", str(answer)]
    try:
        place.start(own, {MARK: mark}, argv, log=str(own / "log"), umask=0o077).wait(FIND_S)
        told = answer.read_text()[:4096].splitlines()
    except OSError:
        told = []
    finally:
        shutil.rmtree(own, ignore_errors=True)
    return fitting(told, place.spec["image"], minor)


def fitting(told: list[str], image: str, minor: str) -> str:
    """Return the Python that a container named; EngineError where its Ray, or its Python, is too old, or not there."""
    hint = _INSTEAD.format(minor=minor)
    if len(told) != 3:
        raise EngineError(f"no Python of `{image}` has Ray, and a `driver:` needs Ray {minor} there: {hint}")
    python, version, ray = told
    if _numbers(ray) < _numbers(minor):
        raise EngineError(f"`{image}` has Ray {ray}, and a `driver:` needs {minor} there: {hint}")
    if _numbers(version) < (3, 10):
        raise EngineError(f"`{image}` has Python {version} with its Ray, and a `driver:` needs 3.10: {hint}")
    return python


def _numbers(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version; zeroes for what is none."""
    parts = version.split(".")[:2]
    return tuple(int(part) if part.isdecimal() else 0 for part in parts)


def variables(mine: Mapping[str, str], user: Mapping[str, str]) -> dict[str, str]:
    """Return what a part of Ray is started with in a container, beside the image's own variables.

    `mine` are those that Ray has on the node: only what is Ray's or ours means something inside. The GPUs are Ray's to
    give.
    """
    ours = {name: value for name, value in mine.items() if name.startswith(("RAY_", "NVLAUNCH_"))}
    found = {"USER": mine["USER"], "LANG": mine["LANG"], **user, **ours}  # Ray asks who it is: an image may not know
    found.pop("CUDA_VISIBLE_DEVICES", None)
    return found


def of_head(argv: list[str], scratch: Path, memory: Path) -> list[str]:
    """Return the arguments of a head whose folder is in memory, which all containers of a machine have.

    Ray connects a driver to the head's own raylet where that is on its machine, by a socket in the head's folder, and a
    driver has a container of its own. What Ray spills stays on the disk.
    """
    own = memory / "ray"
    (own / "ray_current_cluster").unlink(missing_ok=True)  # `ray start --head` refuses where it is there
    kept = [word for word in argv if not word.startswith("--temp-dir=")]
    return [*kept, f"--temp-dir={own}", f"--object-spilling-directory={scratch}"]


def guarded(python: str, package: str, part: str, argv: list[str]) -> list[str]:
    """Return the command of a part of Ray in a container that ends with this process, which follows it."""
    return [python, package, "ray_guard", str(os.getpid()), part, *argv]
