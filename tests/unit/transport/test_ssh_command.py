"""The one line that sshd is given for a command."""

import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

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
        ("python3", "-c", "print('a program that all machines are sent')\n" * 20),
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


FILES = {
    "programs/long.py": (b"print('the same everywhere')\n" * 9000, 0o600),
    "spec.json": (b"{}", 0o640),
    "scripts/gr\u00fc\udcff e\n.sh": (bytes(range(256)) * 300, 0o700),
    "empty": (b"", 0o600),
}


def unpack(target: Path, data: bytes) -> "subprocess.CompletedProcess[bytes]":
    """Give the program on a machine its stdin."""
    return subprocess.run([sys.executable, "-EsSc", command.UNPACK, target], input=data, capture_output=True)


def test_files_arrive_with_content_and_mode_and_programs_are_packed_once(tmp_path: Path) -> None:
    for target in (tmp_path / "one", tmp_path / "two"):
        sent = command.packed(FILES)
        assert unpack(target, sent).returncode == 0
        for name, (content, mode) in FILES.items():
            assert (target / name).read_bytes() == content
            assert stat.S_IMODE((target / name).stat().st_mode) == mode
        assert {path.name for path in target.iterdir()} == {name.split("/")[0] for name in FILES}
    assert len(sent) < 0.2 * sum(len(content) for content, _ in FILES.values())


@pytest.mark.parametrize("lost", [6, 40, 2000])
def test_of_files_that_come_in_part_none_is_there(tmp_path: Path, lost: int) -> None:
    ended = unpack(tmp_path / "run", command.packed(FILES)[:-lost])
    assert (ended.returncode, ended.stderr) == (1, b"the stream ended half-way\n")
    assert not list((tmp_path / "run").iterdir())


def test_a_damaged_stream_leaves_no_file(tmp_path: Path) -> None:
    assert unpack(tmp_path / "run", b"\xff" * 100).returncode == 1
    assert not list((tmp_path / "run").iterdir())
