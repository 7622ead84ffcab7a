"""The layout of the house: `STAGES` is all that happens in a tick, and each adapter has one table of actions."""

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

import launcher
from launcher.core.control.reconcile import STAGES
from launcher.core.model.actions import Action, AllotAction, NodeAction
from launcher.sim import nodes as sim_nodes
from launcher.transport.nodes import ShellNodes

ROOT = Path(launcher.__file__).parent
TESTS = Path(__file__).parents[1]
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
    for path, _, tree in trees():
        module = ".".join(("launcher", *Path(path).with_suffix("").parts))
        if module != RECONCILE:
            found = sorted(mentions(module, tree))
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


LONG = {"runtime/facts.py"}
"""Modules that may be longer: this one is sent to a machine as a single file."""


@cache
def trees() -> Sequence[tuple[str, str, ast.Module]]:
    """The path below `launcher`, the text and the syntax tree of each module."""
    texts = ((path, path.read_text()) for path in sorted(ROOT.rglob("*.py")))
    return [(str(path.relative_to(ROOT)), text, ast.parse(text)) for path, text in texts]


def test_no_module_is_longer_than_300_lines() -> None:
    assert {path for path, text, _ in trees() if text.count("\n") > 300} == LONG


def test_no_folder_has_more_than_25_modules() -> None:
    folders = Counter(str(Path(path).parent) for path, _, _ in trees() if not path.endswith("__init__.py"))
    assert {folder for folder, count in folders.items() if count > 25} == {"runtime"}, (
        "what is shipped to nodes is flat"
    )


def test_no_two_public_classes_have_one_name() -> None:
    names = Counter(
        node.name
        for _, _, tree in trees()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_docstrings_begin_with_what_a_function_returns_or_does() -> None:
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for path, _, tree in trees():
        for node in ast.walk(tree):
            first = (ast.get_docstring(node) or "").split("\n")[0] if isinstance(node, kinds) else ""
            assert not first.startswith("Answer"), f"{path}: {first}"


@pytest.mark.parametrize("room", ["model", "placement", "queue", "control", "discovery", "checks"])
def test_each_module_of_the_core_with_behaviour_has_tests_of_its_name(room: str) -> None:
    tests = {path.stem.removeprefix("test_") for path in (TESTS / "unit" / "core" / room).glob("test_*.py")}
    with_functions = {
        Path(path).stem
        for path, _, tree in trees()
        if path.startswith(f"core/{room}/")
        and any(isinstance(node, ast.FunctionDef) and not node.name.startswith("_") for node in tree.body)
    }
    assert sorted(with_functions - tests) == []
