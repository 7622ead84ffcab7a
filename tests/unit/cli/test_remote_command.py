"""Commands beside ranks: what the command says of its own arguments."""

import pytest

from launcher.cli.remote_command import shell_hints


@pytest.mark.parametrize("argv", [("ls",), ("ls", "-l"), ("sh", "-c", "echo $NODE_RANK | cat")])
def test_a_program_and_its_arguments_need_no_hint(argv: tuple[str, ...]) -> None:
    assert shell_hints(argv) == ()


def test_a_command_line_in_one_word_gets_the_hint_that_no_shell_runs_it() -> None:
    (hint,) = shell_hints(("echo $NODE_RANK | cat",))
    assert "`-- sh -c '...'`" in hint
