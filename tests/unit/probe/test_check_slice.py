"""Values that the nodes of a slice must share."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from launcher.core.model.inventory import Node
from launcher.core.model.nodeset import NodeName
from launcher.probe.check_slice import check_slice
from launcher.probe.findings import CheckResult, Fact
from launcher.probe.node_facts import Facts
from tests.facts import DRIVER, FACTS, HEALTHY, HUNG, NODE
from tests.unit.probe.test_check_node import same, with_all


def members(*facts: Facts) -> list[tuple[Node, Facts]]:
    return [(replace(NODE, name=NodeName(f"r07-n{at:02}")), one) for at, one in enumerate(facts, 1)]


def test_equal_nodes_are_good() -> None:
    findings = check_slice(members(FACTS, FACTS, FACTS))
    assert {finding.fact for finding in findings} == {
        Fact.HOST,
        Fact.CLOCK,
        Fact.PYTHON,
        Fact.RAY,
        Fact.DRIVER,
        Fact.DOMAIN,
        Fact.IMEX,
    }
    assert {finding.result for finding in findings} == {CheckResult.GOOD}


SLICES = {
    "ray": (Fact.RAY, same(python=replace(FACTS.python, ray="2.61.0"))),
    "python": (Fact.PYTHON, same(python=replace(FACTS.python, version=(3, 12, 4)))),
    "driver": (Fact.DRIVER, same(driver=replace(DRIVER, version="580.65.06"))),
    "architecture": (Fact.HOST, same(host=replace(FACTS.host, machine="x86_64"))),
    "domain": (Fact.DOMAIN, with_all(fabric=replace(HEALTHY, clique_id=7))),
    "imex-list": (Fact.IMEX, same(imex_files=replace(FACTS.imex_files, nodes_hash="cc" * 32))),
}


@pytest.mark.parametrize(("fact", "change"), SLICES.values(), ids=SLICES)
def test_node_that_differs_is_named(fact: Fact, change: Callable[[Facts], Facts]) -> None:
    findings = check_slice(members(FACTS, FACTS, change(FACTS), FACTS))
    bad = [finding for finding in findings if finding.result is CheckResult.BAD]
    assert [(finding.fact, finding.nodes, finding.stops) for finding in bad] == [(fact, ("r07-n03",), True)]
    assert bad[0].evidence[0].startswith("r07-n[01-02,04]: ")


def test_clocks_far_apart_are_named() -> None:
    clocks = [replace(FACTS, clock=clock) for clock in (0.2, -1800.0, 1800.0)]
    finding = next(one for one in check_slice(members(*clocks)) if one.fact is Fact.CLOCK)
    assert (finding.result, finding.nodes, finding.stops) == (CheckResult.BAD, ("r07-n02", "r07-n03"), True)
    assert "3600.0 s apart" in finding.message


def test_node_with_an_unknown_value_is_named() -> None:
    finding = next(one for one in check_slice(members(FACTS, replace(FACTS, driver=HUNG))) if one.fact is Fact.DRIVER)
    assert (finding.result, finding.nodes) == (CheckResult.CANNOT_TELL, ("r07-n02",))
