"""One rig for all programs: a rack of four hosts."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.rig import Rig

ACCELERATE = (
    "accelerate==0.26.1",
    "huggingface-hub<1",
    "safetensors",
    "packaging",
    "pyyaml",
    "tqdm",
    "filelock",
)
"""Accelerate of the time of Debian's PyTorch 1.13, and what it imports; numpy and psutil are Debian's too."""


@pytest.fixture(scope="session")
def rig() -> Iterator[Rig]:
    """One rack of four hosts without drivers of GPUs: a program needs two, one takes over, and one is left."""
    with Rig(1, 4, head=True, python=sys.executable, name="programs") as made:
        yield made


@pytest.fixture(scope="session")
def accelerate(rig: Rig) -> str:
    """Install Accelerate where all hosts see it; return that folder, as hosts call it."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]
    only = ["--python-version", "3.11", "--only-binary", ":all:", "--no-deps"]
    fresh = [*only, *ACCELERATE, "requests", "typing_extensions", "fsspec", "urllib3", "idna", "certifi"]
    subprocess.run([*pip, str(rig.shared / "lib"), *fresh, "charset_normalizer"], check=True, timeout=600)
    return "/shared/lib"
