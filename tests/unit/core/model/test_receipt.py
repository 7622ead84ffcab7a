"""Answers of actions, as people read them."""

from launcher.core.model.receipt import Answer, Bundle, Result


def test_an_answer_in_one_line_names_slots_by_domain_and_bundles_without_a_node() -> None:
    bundles = (
        Bundle(index=0, slot="r1-n1", domain="r1"),
        Bundle(index=1, slot="r1-n2", domain="r1"),
        Bundle(index=2, slot=None, domain=None),
    )
    answer = Answer(result=Result.FAILED, message="split", bundles=bundles, notes=("asked twice",))
    assert answer.said == "failed: split: Ray has bundle 2 in no domain; Ray has r1-n[1-2] in r1: asked twice"
