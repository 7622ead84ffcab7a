"""Whatever bytes a node sends on a channel of its own: frames of a command, pieces of a log, replies, an SSH banner."""

import contextlib
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.model.actions import Unit
from launcher.core.model.inventory import Access
from launcher.core.model.run import RunId
from launcher.errors import LaunchError, RemoteError
from launcher.ports import Completed, LogName, Stream
from launcher.runtime import protocol, protocol_files, protocol_programs
from launcher.setup import layout, ports
from launcher.transport.agent import commands, ranks, replies
from launcher.transport.agent.client import AgentClient
from launcher.transport.agent.commands import MAX_FRAME, Frames
from launcher.transport.bounded import last_lines
from launcher.transport.ssh import command
from launcher.transport.ssh.exchange import _Stdout
from tests.effort import drawn

FUZZ = drawn(150)

KINDS = (
    protocol.Reply,
    protocol.StatusReply,
    protocol.TablesReply,
    protocol_programs.RelayAnswer,
    protocol.RankStatusRow,
    protocol_files.LogHeader,
)


class Heard:
    """What a command was heard to write."""

    def __init__(self) -> None:
        self.out = b""
        self.frames = Frames(self._hear)

    def _hear(self, stream: Stream, data: bytes) -> None:
        self.out += stream.value.encode() + data

    def take(self, *parts: bytes) -> "Heard":
        for part in parts:
            self.frames.take(part)
        return self


frames = st.lists(st.tuples(st.sampled_from([b"o", b"e"]), st.binary(max_size=40)), max_size=6)


@FUZZ
@given(frames, st.integers(0, 255), st.lists(st.integers(1, 200), max_size=8))
def test_frames_arrive_whole_however_they_are_cut(
    sent: list[tuple[bytes, bytes]], status: int, cuts: list[int]
) -> None:
    stream = b"".join(b"%s%d\n%s" % (kind, len(data), data) for kind, data in sent)
    end = str(status).encode()
    stream += b"x%d\n%s" % (len(end), end)
    heard, at = Heard(), 0
    for cut in [*cuts, len(stream)]:
        heard.take(stream[at : at + cut])
        at += cut
    heard.take(stream[at:])
    assert heard.out == b"".join(kind + data for kind, data in sent)
    assert (heard.frames.status, heard.frames.end) == (status, b"x")


ODD_FRAMES = (
    b"o-4\nxxxx",
    b"ozz\n",
    b"z4\nxxxx",
    b"o\n",
    b"\n",
    b"o" + b"1" * 100_000,
    b"o%d\n" % (MAX_FRAME + 1),
    b"x3\nabc",
    b"x0\n",
    b"x4\n1234",
    b"o 4\nxxxx",
    b"o+4\nxxxx",
    b"o\xd9\xa3\n",
    b"\x00" * 50,
)


@pytest.mark.parametrize("odd", ODD_FRAMES, ids=[str(one[:12]) for one in ODD_FRAMES])
def test_an_odd_frame_ends_the_command_with_a_message(odd: bytes) -> None:
    heard = Heard().take(b"o2\nhi")
    with pytest.raises(LaunchError, match=r"no part of a command's output"):
        heard.take(odd)
    assert heard.out == b"ohi"


def test_what_follows_the_end_of_a_command_is_dropped() -> None:
    heard = Heard().take(b"x1\n0", b"o3\nbad", b"x1\n7", b"zzz" * 10_000)
    assert (heard.out, heard.frames.status, heard.frames._rest) == (b"", 0, b"")


@FUZZ
@given(st.lists(st.one_of(st.binary(max_size=30), st.sampled_from(ODD_FRAMES), st.just(b"o2\nhi")), max_size=8))
def test_any_bytes_are_frames_or_end_the_command(parts: list[bytes]) -> None:
    heard = Heard()
    try:
        heard.take(*parts)
    except LaunchError:
        return
    assert len(heard.frames._rest) <= MAX_FRAME + 10


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(st.text(max_size=4), st.sampled_from(["ok", "key", "ray", "ranks", "attempt", "next", "member"])),
            inner,
            max_size=6,
        ),
    ),
    max_leaves=20,
)


@FUZZ
@given(st.sampled_from(KINDS), st.one_of(st.binary(max_size=60), values.map(lambda value: json.dumps(value).encode())))
def test_any_bytes_are_a_reply_or_an_odd_one(kind: type[Any], data: bytes) -> None:
    try:
        found = replies.read(kind, replies.parse(data))
    except replies.OddReplyError:
        return
    assert set(found) <= set(kind.__annotations__)
    json.dumps(found, allow_nan=False).encode()


@pytest.mark.parametrize("text", [b"[" * 1_000_000, b'{"a":' * 200_000, b"1" * 1_000_000, b'"' + b"x" * 1_000_000])
def test_large_and_deep_texts_are_refused(text: bytes) -> None:
    with pytest.raises(replies.OddReplyError):
        replies.read(protocol.Reply, replies.parse(text))


class Prints:
    """A shell whose programs print one thing."""

    def __init__(self, out: bytes) -> None:
        self._out = out

    def run(self, at: Access, argv: Any, *, stdin: Any = b"", timeout: float, take: Any = None) -> Completed:
        if take:
            take(self._out)
        return Completed(status=0, stdout=b"" if take else self._out, stderr=b"")


def client(out: bytes) -> AgentClient:
    return AgentClient(
        name="n1",
        unit=Unit.SLOT,
        shell=Prints(out),  # type: ignore[arg-type]  # nothing else is asked of it
        access=Access(address="n1"),
        layout=layout.remote(RunId("r"), "n1"),
        blocks=ports.wide(),
        leases=(),
        shared=False,
        python="python3",
    )


@FUZZ
@given(
    st.one_of(
        st.binary(max_size=60),
        values.map(lambda value: json.dumps(value).encode() + b"\nlog"),
        st.builds(
            lambda at, rest: b'{"attempt": 1, "next": %d}\n%s' % (at, rest), st.integers(), st.binary(max_size=9)
        ),
    )
)
def test_any_bytes_are_a_piece_of_a_log_or_an_error_of_the_node(data: bytes) -> None:
    try:
        part = ranks.read_log(client(data), LogName(), 0)
    except RemoteError:
        return
    assert part.next_offset >= 0
    assert len(part.data) <= ranks.PART_BYTES


@FUZZ
@given(st.binary(max_size=60))
def test_any_bytes_of_a_program_are_a_reply_or_an_error_of_the_node(data: bytes) -> None:
    for ask in (
        lambda: client(data).ask({"op": "hello"}, timeout=5),
        lambda: client(data).answer("agent_start", "x", timeout=5),
        lambda: commands.fetch(client(data), "x", lambda _: None),
    ):
        with contextlib.suppress(RemoteError):
            ask()


@FUZZ
@given(st.lists(st.binary(max_size=30), max_size=6), st.binary(max_size=30), st.lists(st.integers(1, 9), max_size=5))
def test_what_a_login_prints_is_told_from_what_a_command_writes(
    banner: list[bytes], own: bytes, cuts: list[int]
) -> None:
    before = re.sub(rb"\x1e", b"", b"".join(banner))
    mark, taken = command.new_mark(), bytearray()
    stream = before + b"\x1e%s\x1e" % mark.encode() + own
    stdout = _Stdout(mark, taken.extend, pytest.fail)  # type: ignore[arg-type]
    at = 0
    for cut in [*cuts, *([7] * len(stream))]:
        if stream[at : at + cut]:
            stdout.add(stream[at : at + cut])
        at += cut
    assert bytes(taken) == own
    assert (stdout.begun, bytes(stdout.kept.data)) == (True, b"")


@FUZZ
@given(st.one_of(st.binary(max_size=200), st.sampled_from([b"x" * 3_000_000, b"a\n" * 100_000, b"\xff" * 100_000])))
def test_what_is_shown_of_a_programs_output_is_short(output: bytes) -> None:
    found = last_lines(output)
    assert len(found) <= 20
    assert all(len(line) <= 1000 for line in found)
    whole = output.decode(errors="replace").strip().splitlines()
    if all(len(line) <= 1000 for line in whole[-21:]):
        assert list(found) == whole[-20:]
