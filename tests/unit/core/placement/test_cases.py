"""Cases in the words of other schedulers: our own, and those of the file that `NVLAUNCH_PLACEMENT_CASES` names.

For that file, `pytest -rP` shows the report: how many can be said here, and each answer that differs with both sides.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.placement_cases import Verdict, judge, read_cases, report

OWN = Path(__file__).parents[3] / "corpus" / "placement" / "cases.json"
VARIABLE = "NVLAUNCH_PLACEMENT_CASES"


@pytest.mark.parametrize("case", read_cases(OWN), ids=lambda case: case["id"])
def test_our_own_cases_come_out_as_they_say(case: dict[str, Any]) -> None:
    outcome = judge(case)
    assert outcome.verdict.value == case["verdict"], outcome.message


@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"`{VARIABLE}` names no file of cases")
def test_no_case_of_others_is_infeasible_there_and_placed_here_or_the_reverse() -> None:
    outcomes = [judge(case) for case in read_cases(Path(os.environ[VARIABLE]))]
    print(report(outcomes))
    assert [outcome for outcome in outcomes if outcome.verdict is Verdict.WRONG] == []
