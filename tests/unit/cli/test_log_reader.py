"""Reading logs of many ranks: byte for byte, no line mixed or lost, also over a restart."""

import pytest

from launcher.cli.log_reader import Reader, Source, sources
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Slice
from launcher.core.model.record import Record
from launcher.core.model.run import MemberName, Run, RunId, RunName, Slot
from launcher.errors import LaunchError, ProvisionError, SpecError
from launcher.ports import LogName, LogPart
from tests.unit.store.test_store import a_fleet, a_task


def a_run(*groups: str) -> Run:
    names = [node.name for node in a_fleet(9).nodes]
    slices = tuple(
        Slice(group=group, index=0, place="r1", rack=None, domain=None, nodes=tuple(names[at * 3 : at * 3 + 2]))
        for at, group in enumerate(groups)
    )
    return Run(
        id=RunId("job-abc234"),
        name=RunName("job"),
        task=a_task(2),
        placement=Placement(slices=slices),
        fleet=a_fleet(9),
    )


class Logs:
    """The one method of `Nodes` that reads: each node has an attempt and what it wrote in it."""

    def __init__(self) -> None:
        self.written: dict[str, tuple[int, bytes]] = {}

    def read_log(self, run: Run, node: NodeName, log: LogName, offset: int) -> LogPart:
        if node not in self.written:
            raise LaunchError("no route to host")
        attempt, data = self.written[node]
        at = max(0, len(data) + offset) if offset < 0 else offset
        part = data[at : at + 4] if offset >= 0 else data[at:]
        return LogPart(data=part, next_offset=at + len(part), attempt=attempt)


def a_source(node: str) -> Source:
    return Source(label=f"main/{node}", node=NodeName(node), name=LogName(member=MemberName(f"main/{node}")))


class TestSources:
    def test_all_ranks_in_order_on_the_nodes_that_hold_them_now(self) -> None:
        swapped = Slot(member=MemberName("main/1"), node=NodeName("r1-n05"))
        found = sources(a_run("main"), Record(slots={swapped.member: swapped}), rank=None, node=None, provision=False)
        assert [(source.label, source.node) for source in found] == [("main/0", "r1-n00"), ("main/1", "r1-n05")]

    def test_a_rank_by_number_or_by_group(self) -> None:
        run = a_run("main", "judge")
        (found,) = sources(run, Record(), rank="judge/1", node=None, provision=False)
        assert found.node == "r1-n04"
        with pytest.raises(SpecError, match="several groups") as several:
            sources(run, Record(), rank="1", node=None, provision=False)
        assert several.value.hints == ("write one of `main/1`, `judge/1`",)

    @pytest.mark.parametrize("word", ["7", "main/2", "", "x"])
    def test_an_unknown_rank_is_refused(self, word: str) -> None:
        with pytest.raises(SpecError, match="has no rank"):
            sources(a_run("main"), Record(), rank=word, node=None, provision=False)

    def test_provisioning_is_of_nodes(self) -> None:
        found = sources(a_run("main"), Record(), rank=None, node="r1-n01", provision=True)
        assert [(source.label, source.name.member) for source in found] == [("r1-n01", None)]
        with pytest.raises(SpecError, match="has no node"):
            sources(a_run("main"), Record(), rank=None, node="r1-n08", provision=True)


class TestReader:
    def read(self, logs: Logs, *nodes: str) -> Reader:
        return Reader(logs, a_run("main"), tuple(map(a_source, nodes)))  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("data", "lines", "shown"),
        [
            (b"a\nb\nc\n", 2, b"b\nc\n"),
            (b"a\nb\nc", 2, b"b\nc"),
            (b"a\r50%\r99%\nb\n", 2, b"a\r50%\r99%\nb\n"),
            (b"\xff\x00\x1b[31m\n", 1, b"\xff\x00\x1b[31m\n"),
            (b"", 5, b""),
            (b"a\nb\nc\nd\ne\n", 0, b"a\nb\nc\nd\ne\n"),
        ],
    )
    def test_one_log_passes_byte_for_byte(
        self, data: bytes, lines: int, shown: bytes, capfdbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        logs = Logs()
        logs.written["a"] = (1, data)
        reader = self.read(logs, "a")
        reader.start(lines)
        reader.finish()
        reader.close()
        assert capfdbinary.readouterr().out == shown

    def test_lines_of_several_keep_whole_and_labelled(self, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        logs = Logs()
        logs.written = {"a": (1, b"one two three\nfour"), "b": (1, b"five\nsix\n")}
        reader = self.read(logs, "a", "b")
        reader.start(0)
        reader.finish()
        reader.close()
        lines = capfdbinary.readouterr().out.splitlines()
        assert sorted(lines) == [b"[main/a] four", b"[main/a] one two three", b"[main/b] five", b"[main/b] six"]

    def test_a_restart_begins_the_new_log_at_its_start(self, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        logs = Logs()
        logs.written["a"] = (1, b"first attempt\n")
        reader = self.read(logs, "a")
        reader.start(5)
        logs.written["a"] = (2, b"second\nlonger than the first was\n")
        reader.follow(lambda: True)
        reader.finish()
        reader.close()
        out, err = capfdbinary.readouterr()
        assert out == b"first attempt\nsecond\nlonger than the first was\n"
        assert b"started again (attempt 2)" in err

    def test_what_cannot_be_read_is_told_after_the_rest(self, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        logs = Logs()
        logs.written["a"] = (1, b"fine\n")
        reader = self.read(logs, "a", "gone")
        reader.start(5)
        with pytest.raises(ProvisionError, match="1 of 2 logs") as missing:
            reader.finish()
        reader.close()
        assert missing.value.outcomes == (("main/gone", "no route to host"),)
        assert capfdbinary.readouterr().out == b"[main/a] fine\n"
