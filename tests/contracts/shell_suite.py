"""One suite for the `Shell` port. Every adapter runs it, each with a harness of its own, so that none drifts.

A test module makes a class of it and gives it the fixture `machine`:

    class TestLocalShell(ShellSuite):
        @pytest.fixture
        def machine(self, tmp_path): ...
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from launcher.core.model.inventory import Access
from launcher.errors import LaunchError, RemoteError
from launcher.ports import Completed, Shell

AMPLE = 40.0
BIG = bytes(range(256)) * 40_960  # 10 MiB, every byte


@dataclass(frozen=True)
class Machine:
    """A machine under test: a shell, its access, an empty folder there, and who is alive by a word in its command."""

    shell: Shell
    access: Access
    folder: str
    alive: Callable[[str], list[str]]

    def run(self, *argv: str, stdin: bytes = b"", timeout: float = AMPLE) -> Completed:
        return self.shell.run(self.access, argv, stdin=stdin, timeout=timeout)

    def put(self, files: dict[str, tuple[bytes, int]], *, below: str = "", timeout: float = AMPLE) -> None:
        self.shell.put(self.access, self.folder + below, files, timeout=timeout)


class ShellSuite:
    """What every shell does."""

    @pytest.mark.parametrize("status", [0, 1, 3, 124, 126, 127, 137, 254, 255])
    def test_an_exit_status_comes_back_as_it_was(self, machine: Machine, status: int) -> None:
        assert machine.run("sh", "-c", f"exit {status}") == Completed(status=status, stdout=b"", stderr=b"")

    @pytest.mark.parametrize(("name", "number"), [("KILL", 9), ("TERM", 15), ("SEGV", 11)])
    def test_death_by_a_signal_is_an_end_and_no_fault_of_the_way(
        self, machine: Machine, name: str, number: int
    ) -> None:
        ended = machine.run("sh", "-c", f"echo out; echo err >&2; kill -{name} $$")
        assert ended == Completed(status=128 + number, stdout=b"out\n", stderr=b"err\n")

    def test_a_command_that_does_not_exist_is_told_so(self, machine: Machine) -> None:
        with pytest.raises(RemoteError, match="cannot start `no-such-program`: No such file or directory") as caught:
            machine.run("no-such-program", "x")
        assert caught.value.stage == "command"

    def test_both_streams_come_back_apart(self, machine: Machine) -> None:
        ended = machine.run("sh", "-c", "echo one; echo two >&2; echo three")
        assert (ended.stdout, ended.stderr) == (b"one\nthree\n", b"two\n")

    @pytest.mark.parametrize(
        "word",
        [
            "",
            " ",
            "a b",
            "it's",
            '"quoted"',
            "back\\slash\\",
            "$HOME `id` $(id)",
            "a;b|c&d>e<f",
            "*?[a]{b,c}",
            "!history !!",
            "line\nbreak\n",
            "tab\tend",
            "-n",
            "--",
            "%s%b\\0101",
            "~root",
            "#hash",
            "grüße 東京 🚀",
            "caf\udce9",
        ],
    )
    def test_words_arrive_as_they_are(self, machine: Machine, word: str) -> None:
        ended = machine.run("sh", "-c", 'printf "%s|" "$@"', "sh", word, "after")
        assert ended.stdout == word.encode("utf-8", "surrogateescape") + b"|after|"

    def test_stdin_arrives_byte_for_byte_and_ends(self, machine: Machine) -> None:
        assert machine.run("cat", stdin=b"\x00\xff\r\n\x04").stdout == b"\x00\xff\r\n\x04"
        assert machine.run("cat").stdout == b""

    def test_ten_megabytes_go_there_and_back_at_once(self, machine: Machine) -> None:
        assert machine.run("cat", stdin=BIG).stdout == BIG

    def test_much_on_stderr_does_not_block(self, machine: Machine) -> None:
        ended = machine.run("sh", "-c", "head -c 8000000 /dev/zero >&2; echo done")
        assert (len(ended.stderr), ended.stdout) == (8_000_000, b"done\n")

    def test_a_command_that_does_not_read_its_stdin_ends_all_the_same(self, machine: Machine) -> None:
        assert machine.run("sh", "-c", "exit 4", stdin=BIG).status == 4

    def test_stdout_may_be_taken_as_it_comes(self, machine: Machine) -> None:
        parts: list[bytes] = []

        def take(part: bytes) -> None:
            parts.append(part)
            machine.put({"go": (b"", 0o600)})

        wait = 'echo one; until [ -e "$1" ]; do sleep 0.02; done; echo two; echo err >&2; exit 3'
        argv = ("sh", "-c", wait, "sh", f"{machine.folder}/go")
        ended = machine.shell.run(machine.access, argv, timeout=AMPLE, take=take)
        assert b"".join(parts) == b"one\ntwo\n"
        assert ended == Completed(status=3, stdout=b"", stderr=b"err\n")
        many: list[bytes] = []
        machine.shell.run(machine.access, ["cat"], stdin=BIG, timeout=AMPLE, take=many.append)
        assert b"".join(many) == BIG

    def test_who_takes_what_comes_may_end_it(self, machine: Machine) -> None:
        def take(_: bytes) -> None:
            raise LaunchError("enough")

        with pytest.raises(LaunchError, match="enough"):
            machine.shell.run(machine.access, ["sh", "-c", "echo x; exec yes 4713"], timeout=AMPLE, take=take)
        deadline = time.monotonic() + 30
        while left := machine.alive("4713"):
            assert time.monotonic() < deadline, left
            time.sleep(0.05)
        assert machine.run("echo", "on").stdout == b"on\n"

    @pytest.mark.parametrize("stream", ["1", "2"])
    def test_a_command_that_writes_without_end_is_ended(self, machine: Machine, stream: str) -> None:
        with pytest.raises(RemoteError, match=r"`sh` wrote more than \d\d MiB to std(out|err), and was ended"):
            machine.run("sh", "-c", f"exec yes 4714 >&{stream}")
        assert machine.run("echo", "on").stdout == b"on\n"

    def test_a_time_out_kills_all_that_was_started(self, machine: Machine) -> None:
        tree = "trap '' TERM INT HUP; (trap '' TERM; sleep 4711) & sleep 4712 & echo so far >&2; wait"
        begun = time.monotonic()
        with pytest.raises(RemoteError, match="`sh` did not end within 1 s") as caught:
            machine.run("sh", "-c", tree, timeout=1)
        assert 0.9 < time.monotonic() - begun < 15
        assert (caught.value.stage, caught.value.node) == ("command", machine.access.address)
        assert 0.9 < caught.value.elapsed < 15
        deadline = time.monotonic() + 30
        while left := machine.alive("471"):
            assert time.monotonic() < deadline, left
            time.sleep(0.05)

    def test_twenty_at_once_get_their_own_answers(self, machine: Machine) -> None:
        def ask(number: int) -> bytes:
            return machine.run("sh", "-c", 'sleep 0.1; printf %s "$1"', "sh", str(number)).stdout

        with ThreadPoolExecutor(20) as pool:
            assert list(pool.map(ask, range(20))) == [str(number).encode() for number in range(20)]

    def test_files_are_put_with_their_modes_and_folders_are_ours_alone(self, machine: Machine) -> None:
        files = {
            "top": (b"1", 0o600),
            "bin/run.sh": (b"#!/bin/sh\nexit 7\n", 0o755),
            "a b/it's": (b"", 0o644),
            "deep/er/still": (bytes(range(256)), 0o400),
        }
        machine.put(files, below="/new")
        for name, (content, mode) in files.items():
            path = f"{machine.folder}/new/{name}"
            assert machine.run("cat", path).stdout == content
            assert machine.run("stat", "-c", "%a", path).stdout.decode().strip() == f"{mode:o}"
        for name in ("", "/bin", "/a b", "/deep/er"):
            assert machine.run("stat", "-c", "%a", f"{machine.folder}/new{name}").stdout == b"700\n"
        assert machine.run(f"{machine.folder}/new/bin/run.sh").status == 7

    def test_a_file_is_replaced_as_a_whole(self, machine: Machine) -> None:
        """Who has the old one open goes on reading it, and readers see one or the other."""
        machine.put({"file": (b"old" * 100_000, 0o600)})
        read = 'exec 3<"$1"; while [ ! -e "$1.go" ]; do sleep 0.02; done; cat <&3'
        with ThreadPoolExecutor(1) as pool:
            old = pool.submit(machine.run, "sh", "-c", read, "sh", f"{machine.folder}/file")
            time.sleep(0.2)
            machine.put({"file": (b"new", 0o644)})
            machine.put({"file.go": (b"", 0o600)})
            assert old.result().stdout == b"old" * 100_000
        assert machine.run("cat", f"{machine.folder}/file").stdout == b"new"
        assert machine.run("ls", "-A", machine.folder).stdout == b"file\nfile.go\n"

    def test_a_folder_that_cannot_be_written_is_named(self, machine: Machine) -> None:
        machine.put({"flat": (b"", 0o600)})
        with pytest.raises(RemoteError, match=r"cannot write to .*flat") as caught:
            machine.put({"inside": (b"x", 0o600)}, below="/flat")
        assert caught.value.stage == "put"

    def test_twenty_puts_at_once_into_one_folder_lose_nothing(self, machine: Machine) -> None:
        def put(number: int) -> None:
            machine.put({"same": (b"x" * 50_000, 0o600), f"own{number}": (b"%d" % number, 0o600)})

        with ThreadPoolExecutor(20) as pool:
            list(pool.map(put, range(20)))
        assert len(machine.run("ls", "-A", machine.folder).stdout.split()) == 21
        assert machine.run("cat", f"{machine.folder}/same").stdout == b"x" * 50_000

    def test_a_program_is_spoken_with_as_long_as_both_want(self, machine: Machine) -> None:
        argv = ("sh", "-c", 'echo begun; while read -r line; do echo "heard $line"; done')
        talk = machine.shell.converse(machine.access, argv, timeout=AMPLE, knock=AMPLE)
        heard = b""
        for word in (b"one\n", b"two three\n"):
            talk.send(word)
            while not heard.endswith(b"heard " + word):
                part = talk.read()
                assert part, talk.last_words()
                heard += part
        assert heard == b"begun\nheard one\nheard two three\n"
        assert machine.run("true").status == 0, "it is in nobody's way"
        talk.close()
        assert talk.read() == b""

    def test_the_end_of_a_program_that_is_spoken_with_is_heard(self, machine: Machine) -> None:
        talk = machine.shell.converse(
            machine.access, ("sh", "-c", "read -r line; echo $line"), timeout=AMPLE, knock=AMPLE
        )
        talk.send(b"bye\n")
        heard = b""
        while part := talk.read():
            heard += part
        assert heard == b"bye\n"
        assert talk.last_words()
        talk.send(b"nobody is there\n")
        talk.close()
