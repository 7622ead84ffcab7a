"""How ranks and slices are called on a command line, and that neither is taken for the other in what is shown."""

import pytest

from launcher.core.model.record import Record
from launcher.drive.targets import members, slice_named, targets
from launcher.errors import SpecError
from tests.unit.drive.test_log_reader import a_run


@pytest.mark.parametrize("word", ["judge.s0", "judge/0"])
def test_a_slice_by_its_name_or_as_group_and_number(word: str) -> None:
    assert slice_named(a_run("main", "judge"), word).key == "judge.s0"


@pytest.mark.parametrize("word", ["0", "s0", "main.s0", "main/0"])
def test_a_number_is_enough_where_there_is_one_group(word: str) -> None:
    found = targets(a_run("main"), Record(), rank=None, part=word, node=None, every=False)
    assert [target.label for target in found] == ["main/0", "main/1"]


@pytest.mark.parametrize("word", ["7", "main.s7", "main.0", "s", ""])
def test_what_is_no_slice_is_refused_with_what_could_be_written(word: str) -> None:
    with pytest.raises(SpecError) as refused:
        slice_named(a_run("main"), word, before="job/")
    assert "write one of `job/main.s0`" in str(refused.value.mistakes[0])


def test_the_name_of_a_slice_is_no_rank() -> None:
    with pytest.raises(SpecError, match=r"has no rank `main\.s0`"):
        members(a_run("main"), "main.s0")


def test_a_run_that_waits_for_its_turn_has_no_slice_to_name() -> None:
    with pytest.raises(SpecError, match="is queued"):
        slice_named(a_run(), "0")
