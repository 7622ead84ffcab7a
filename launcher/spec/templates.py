"""The starter files and what else lies in `templates/`: the one way to read them, installed or in a checkout."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path


def read_template(name: str) -> str:
    """Answer the text of a file of `templates/`; FileNotFoundError when there is none of that name."""
    return (_folder() / name).read_text(encoding="utf-8")


def _folder() -> Traversable:
    """Answer the folder: inside the package when installed from a wheel, beside it in a checkout (editable too)."""
    installed = files("launcher") / "_templates"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "templates"
