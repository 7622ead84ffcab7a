"""Ranks start once everything that they need is there."""

from tests.situations import Situation, kinds, make_run


def test_no_rank_starts_before_ray_was_asked_where_every_bundle_is() -> None:
    here = Situation(make_run())
    here.ready()
    asked = here.decide()
    assert kinds(asked) == ["verify:main.s0", "verify:main.s1"]
    here.receive(asked.actions[0], bundles=here.bundles("main.s0"))
    assert "start:run@1" not in kinds(here.decide())
    here.receive(asked.actions[1], bundles=here.bundles("main.s1"))
    assert kinds(here.decide()) == ["start:run@1"]


def test_a_start_whose_effect_is_not_seen_is_asked_for_again_under_the_same_attempt() -> None:
    here = Situation(make_run())
    here.ready()
    here.verify(here.decide().actions)
    assert kinds(here.decide()) == ["start:run@1"]
    assert kinds(here.decide()) == ["start:run@1"]
    assert here.gang().attempt == 1
