"""Tasks: levels that follow from a rule, and the ranks that share a node."""

import pytest

from launcher.core.model.task import TopologyRule, owner_rank


@pytest.mark.parametrize(
    ("rule", "near", "apart"),
    [
        pytest.param(TopologyRule(), "rack", "rack", id="default"),
        pytest.param(TopologyRule(within="node"), "rack", "rack", id="node"),
        pytest.param(TopologyRule(within="any"), "rack", "rack", id="any"),
        pytest.param(TopologyRule(within="block", spread="zone"), "block", "zone", id="block"),
        pytest.param(TopologyRule(all_within="zone", spread="node"), "zone", "rack", id="all within a zone"),
    ],
)
def test_groups_are_near_and_apart_at_these_levels(rule: TopologyRule, near: str, apart: str) -> None:
    assert (rule.near_level, rule.apart_level) == (near, apart)


def test_slices_of_a_colocated_group_are_laid_out_in_rank_order() -> None:
    owner, rule = TopologyRule(slices=2, nodes_per_slice=5), TopologyRule(slices=4, nodes_per_slice=2)
    ranks = [owner_rank(rule, owner, index, at) for index in range(4) for at in range(2)]
    assert ranks == [0, 1, 2, 3, 5, 6, 7, 8]
