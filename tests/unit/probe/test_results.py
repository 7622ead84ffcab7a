"""The line of results in the output of a node."""

import pytest

from launcher.probe.results import MARK, ProbeResult, Unknown, read_results


def test_output_of_a_login_script_is_skipped() -> None:
    answer = (
        b'Welcome to r07!\nnvlaunch-facts is what we run\n\nnvlaunch-facts {"date": {"rc": 0, "out": "12.0"}}\nbye\n'
    )
    found = read_results(answer)
    assert found == {"date": ProbeResult(rc=0, out="12.0")}


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (b"bash: line 1: python3: command not found\n", "python3: command not found"),
        (b"", "nothing"),
        (MARK + b'{"date": {"rc": 0, "out"', "cut off"),
    ],
    ids=["no-python", "nothing", "cut-off"],
)
def test_missing_answer_is_unknown_with_the_first_line_of_the_output(output: bytes, words: str) -> None:
    found = read_results(output)
    assert isinstance(found, Unknown)
    assert words in found.why
