"""A run, looked up by name."""

from launcher.core.model.run_index import index_of
from tests.situations import make_run
from tests.unit.core.control.kernel import DRIVER, driven


def test_the_driver_of_every_member_is_the_first_of_its_group() -> None:
    with_driver, without = index_of(driven().run), index_of(make_run())
    assert {driver.name for one in with_driver.members if (driver := with_driver.driver(one))} == {DRIVER}
    assert {without.driver(one) for one in without.members} == {None}
