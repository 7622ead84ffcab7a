"""The one line that sshd is given for a command."""

import re
import shlex

import pytest

from launcher.transport.ssh import command


def script(line: str) -> str:
    """Return what /bin/sh is given, as `printf %b` makes it of the line."""
    found = re.fullmatch(r"""exec /bin/sh -c 'eval "\$\(printf %b "([A-Za-z0-9 _./=,:+@\\-]*)"\)"'""", line)
    assert found, line
    raw = re.sub(rb"\\0([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), found[1].encode())
    return raw.decode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    "argv",
    [
        ("true",),
        ("sh", "-c", "echo 'a b' \"$HOME\" `id` !x \\\\ \n* 0123"),
        ("printf", "", " ", "-n", "7", "\x01\x7f", "grüße", "\udcff", "%s\\0101"),
    ],
)
def test_a_login_shell_sees_no_character_that_shells_read_differently(argv: tuple[str, ...]) -> None:
    words = shlex.split(script(command.line(argv, 2.5, "abc", "me")).split("(exec ", 1)[1].rsplit(" 2>&3", 1)[0])
    assert words == ["timeout", "-s", "KILL", "2.500", *argv]


def test_no_time_left_is_no_endless_time() -> None:
    assert "timeout -s KILL 0.001 true" in script(command.line(["true"], 0.0, "abc", "me"))


def test_what_came_before_the_mark_is_not_the_commands() -> None:
    mark = command.new_mark()
    found = b"\x1e" + mark.encode() + b"\x1e"
    assert command.output(b"welcome\n" + found + b"own" + found, mark) == b"own" + found
    assert command.output(found, mark) == b""
    assert command.output(b"welcome\n" + found + b"own", command.new_mark()) is None
    assert command.output(b"This account is not available.\n", mark) is None
