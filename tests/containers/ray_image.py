"""An image with a Python and a Ray of its own, made of those of this machine."""

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib import metadata
from io import BytesIO
from pathlib import Path

from packaging.requirements import Requirement

from tests.containers.docker import rootfs

HOME = "opt/python"
ONLY = "WORD = 'of-the-image'\n"
# Parts of Ray and of Python that no test needs: half of the size.
_LEFT_OUT = ("ray/jars", "ray/rllib", "ray/serve", "ray/tune", "ray/data", "ray/llm", "ray/dashboard/client")
_LIBRARY_LEFT_OUT = ("site-packages", "test", "ensurepip", "idlelib", "lib2to3", "turtledemo", "tkinter")


def ray_rootfs(path: Path) -> Path:
    """Write a root file system as a tar: shell, tools, Python and Ray. Its Python has a module `only_in_image`."""
    rootfs(path)
    with tarfile.open(path, "a") as tar:
        written = set(tar.getnames())  # Docker takes no file twice

        def chosen(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
            left_out = any(f"/{part}" in f"/{info.name}" for part in _LEFT_OUT)
            if left_out or (info.name in written and not info.isdir()):
                return None
            written.add(info.name)
            return info

        for name, source in _files():
            tar.add(source, name, filter=chosen)
        made = tarfile.TarInfo(f"{_packages()}/only_in_image.py")
        made.size = len(ONLY)
        tar.addfile(made, BytesIO(ONLY.encode()))
    return path


def _packages() -> str:
    return f"{HOME}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def _files() -> Iterator[tuple[str, Path]]:
    """Return names in the image, and files or folders of this machine."""
    base = Path(sys.base_prefix)
    python = os.path.realpath(sys.executable)
    yield f"{HOME}/bin/python3", Path(python)
    library = Path(os.__file__).parent
    for entry in library.iterdir():
        if entry.name not in _LIBRARY_LEFT_OUT:
            yield f"{HOME}/{library.relative_to(base)}/{entry.name}", entry
    for distribution in _needed("ray"):
        for top in sorted({str(file).split("/")[0] for file in distribution.files or ()} - {"..", "__pycache__"}):
            yield f"{_packages()}/{top}", Path(str(distribution.locate_file(top)))
    core = Path(str(metadata.distribution("ray").locate_file("ray/core")))
    programs = [core / "src/ray" / name for name in ("raylet/raylet", "gcs/gcs_server")]
    told = _told([Path(python), *library.glob("lib-dynload/*.so"), *core.rglob("*.so*"), *programs])
    for word in sorted(set(told.split())):
        if word.startswith("/") and not word.endswith(":"):
            yield word.lstrip("/"), Path(os.path.realpath(word))


def _told(programs: list[Path]) -> str:
    """Return which libraries programs need, as `ldd` writes it."""
    return subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout


def _needed(name: str) -> list[metadata.Distribution]:
    """Return a distribution and all that it needs."""
    found: dict[str, metadata.Distribution] = {}
    todo = [name]
    while todo:
        one = todo.pop()
        if one in found:
            continue
        found[one] = metadata.distribution(one)
        for text in found[one].requires or ():
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                todo.append(wanted.name)
    return list(found.values())
