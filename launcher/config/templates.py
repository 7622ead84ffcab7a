"""The starter files in `templates/` and `examples/`: the one way to read them, installed or in a checkout."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

EXAMPLES: Mapping[str, str] = {
    "demo": "two slices on two racks, nothing but bash",
    "torchrun": "one program on a few nodes of one rack",
    "vla-8x64": "pre-training on 512 GPUs: 8 slices of 64, one spare each",
    "ray-driver": "a program that speaks to Ray itself, one group a slice",
    "rl": "trainer, rollout workers and judges as groups of one run",
    "prefill-decode": "disaggregated serving inside one rack",
    "shared-nodes": "the same on parts of nodes: two GPUs of each for either, a router beside them",
    "plain-skypilot": "a task as SkyPilot's users write it",
}
"""Tasks to begin with, by name."""


def read_template(name: str) -> str:
    """Return the text of a file of `templates/`; FileNotFoundError when there is none of that name."""
    return _read("templates", name)


def read_example(name: str) -> str:
    """Return the text of the task of an example; KeyError when there is none of that name."""
    if name not in EXAMPLES:
        raise KeyError(name)
    return _read("examples", f"{name}.yaml")


def _read(folder: str, name: str) -> str:
    """A wheel has the folder inside the package; a checkout (an editable install too) has it beside the package."""
    installed = files("launcher") / f"_{folder}"
    if installed.is_dir():
        return (installed / name).read_text(encoding="utf-8")
    return (Path(__file__).parents[2] / folder / name).read_text(encoding="utf-8")
