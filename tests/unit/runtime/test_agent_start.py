"""What a node is asked before its agent starts: whether the interpreter there has a Ray that will do."""

import importlib
import sys
from pathlib import Path

import pytest

begin = importlib.import_module("launcher.runtime.agent_start")

PACKAGES = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The packages of an interpreter of its own; to start that would raise here."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    folder = tmp_path / PACKAGES
    folder.mkdir(parents=True)
    return folder


def _lay(packages: Path, version: str) -> None:
    """Lay what an installer leaves of a Ray of this version."""
    folder = packages / f"ray-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: ray\nVersion: {version}\n", encoding="utf-8")


@pytest.mark.parametrize("version", ["2.60.0", "2.61.3", "3.0.0"])
def test_a_ray_that_is_new_enough_is_seen_without_starting_its_interpreter(packages: Path, version: str) -> None:
    _lay(packages, version)
    assert begin._unfit({"ray": "2.60", "interpreter": None}) is None


@pytest.mark.parametrize("version", ["2.9.3", "2.59.1", "1.99.0"])
def test_a_ray_that_is_too_old_is_refused_by_its_number(packages: Path, version: str) -> None:
    _lay(packages, version)
    assert f"has Ray {version}, and 2.60 is needed" in (begin._unfit({"ray": "2.60", "interpreter": None}) or "")


@pytest.mark.parametrize("found", [(), ("2.60.0", "2.9.3")])
def test_where_folders_do_not_tell_nothing_is_guessed(packages: Path, found: tuple[str, ...]) -> None:
    for version in found:
        _lay(packages, version)
    (packages / "ray_cpp-2.60.0.dist-info").mkdir()
    assert begin._installed() is None


def test_a_folder_that_was_left_half_is_not_believed(packages: Path) -> None:
    (packages / "ray-2.60.0.dist-info").mkdir()
    assert begin._installed() is None


def test_an_environment_that_is_still_to_be_made_is_not_asked(packages: Path) -> None:
    assert begin._unfit({"ray": "2.60", "interpreter": {"ray": "2.60.0"}}) is None
