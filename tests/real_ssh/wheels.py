"""Wheels that stand in for Ray's hundred megabytes, for nodes without a Python of ours and without internet."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import ray

LEADS_ON = f"{Path(ray.__file__).parents[1]}\n"


def wheel(folder: Path, version: str, files: Mapping[str, str]) -> None:
    """A wheel that is called `ray`, with these files in it and nothing that it needs."""
    folder.mkdir(exist_ok=True)
    info = f"ray-{version}.dist-info"
    with zipfile.ZipFile(folder / f"ray-{version}-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: ray\nVersion: {version}\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")


def real_ray(folder: Path) -> Path:
    """A folder with a wheel that leads to the Ray of these tests, which the hosts see at the same place."""
    wheel(folder, ray.__version__, {"to_the_tests.pth": LEADS_ON})
    return folder
