"""What `check` says of nodes that did not pass."""

from pathlib import Path

import pytest

from launcher.admission.checks.by_hand import plan_check, run_check
from launcher.cli.output.check import check_text
from launcher.core.model.checks import CheckStage
from launcher.core.model.nodeset import NodeName, expand
from launcher.store.store import Store
from tests.unit.admission.checks_fleet import Checker, fleet


def lines(home: Path, checker: Checker, *, size: int | None = None) -> list[str]:
    store, hall = Store(home), fleet()
    names = tuple(map(NodeName, expand("r1-n[1-3]")))
    planned = plan_check(store, hall, names, stage=CheckStage.BEFORE_START, slice_size=size)
    found = run_check(store, hall, planned, checker, by="me", stopped=lambda: False, tell=lambda _: None)
    return check_text(planned, found, 1.0).splitlines()


def test_equal_output_of_several_nodes_is_shown_once(tmp_path: Path) -> None:
    shown = lines(tmp_path, Checker(bad={"r1-n1", "r1-n3"}))
    assert "  r1-n[1,3] | Xid 79" in shown
    assert "r1-n[1,3]: bad: exit status 1" in shown


@pytest.mark.parametrize(
    ("checker", "why"),
    [
        (Checker(bad={"r1-n1", "r1-n2", "r1-n3"}), "exit status 1"),
        (Checker(late={"r1-n1", "r1-n2", "r1-n3"}), "it did not end"),
    ],
    ids=["fails", "hangs"],
)
def test_a_slice_without_a_good_node_says_what_its_nodes_said(tmp_path: Path, checker: Checker, why: str) -> None:
    shown = lines(tmp_path, checker, size=3)
    assert f"slow or bad together r1-n[1-3]: no node is known to be good, to compare with: {why}" in shown


def test_a_node_without_an_answer_says_why(tmp_path: Path) -> None:
    assert "no answer r1-n3: the command is not found" in lines(tmp_path, Checker(silent={"r1-n3"}), size=3)
