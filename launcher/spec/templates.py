"""The starter files and what else lies in `templates/`: the one way to read them, installed or in a checkout."""

from importlib.resources import files
from pathlib import Path


def read_template(name: str) -> str:
    """Answer the text of a file of `templates/`; FileNotFoundError when there is none of that name.

    A wheel has the folder inside the package; a checkout (an editable install too) has it beside the package.
    """
    installed = files("launcher") / "_templates"
    if installed.is_dir():
        return (installed / name).read_text(encoding="utf-8")
    return (Path(__file__).parents[2] / "templates" / name).read_text(encoding="utf-8")
