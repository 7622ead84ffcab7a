"""The layout of the house: `STAGES` is all that happens in a tick, and each adapter has one table of actions."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import launcher
from launcher.core.control.reconcile import STAGES
from launcher.core.model.actions import Action, AllotAction, NodeAction
from launcher.sim import nodes as sim_nodes
from launcher.transport.nodes import ShellNodes

ROOT = Path(launcher.__file__).parent
RECONCILE = "launcher.core.control.reconcile"
HOME = {stage.__name__: stage.__module__ for stage, _ in STAGES}


def mentions(module: str, tree: ast.Module) -> Iterator[str]:
    """The stages that a module names: imported, through their module, or its own."""
    rooms: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(room), names=names):
                rooms |= {one.asname or one.name: f"{room}.{one.name}" for one in names}
                yield from (one.name for one in names if HOME.get(one.name) == room)
            case ast.Name(id=name) if HOME.get(name) == module:
                yield name
            case ast.Attribute(value=ast.Name(id=room), attr=name) if name in HOME and rooms.get(room) == HOME[name]:
                yield name


def test_a_stage_is_called_from_nowhere_but_the_tuple() -> None:
    for path in ROOT.rglob("*.py"):
        module = ".".join(("launcher", *path.relative_to(ROOT).with_suffix("").parts))
        if module != RECONCILE:
            found = sorted(mentions(module, ast.parse(path.read_text())))
            assert not found, f"{module} names {found}"


def test_reconcile_names_each_stage_once_and_in_the_tuple() -> None:
    tree = ast.parse((ROOT / "core" / "control" / "reconcile.py").read_text())
    (stages,) = (node for node in tree.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "STAGES")
    named = sorted(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in HOME)
    listed = sorted(node.id for node in ast.walk(stages) if isinstance(node, ast.Name) and node.id in HOME)
    assert named == listed == sorted(HOME)
    assert len(STAGES) == len(HOME)


def test_a_stage_says_what_it_reads_and_what_it_writes() -> None:
    for stage, _ in STAGES:
        for word in ("Reads", "Writes"):
            assert f"{word} " in (stage.__doc__ or ""), f"{stage.__name__} does not say what it {word.lower()}"


@pytest.mark.parametrize("table", [sim_nodes.ACTS, ShellNodes.ACTS], ids=["sim", "transport"])
def test_an_adapter_has_one_row_for_each_action_on_nodes(table: dict[type, object]) -> None:
    assert set(table) == set(get_args(NodeAction)) == set(get_args(Action)) - set(get_args(AllotAction))
