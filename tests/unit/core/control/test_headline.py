"""What a run says of itself, as people read it."""

from tests.situations import Situation, make_run


def test_one_node_and_one_rank_are_told_in_the_singular() -> None:
    here = Situation(make_run(slices=1, nodes=1))
    assert here.decide().status_message.startswith("1 node ")
    here.serving()
    assert here.decide().status_message == "1 of 1 rank running"
