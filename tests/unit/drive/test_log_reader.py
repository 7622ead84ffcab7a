"""Reading logs of many ranks: byte for byte, no line mixed or lost, also over a restart."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import pytest

from launcher.cli.output.logs import LogPrinter
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Slice
from launcher.core.model.record import Record
from launcher.core.model.run import MemberName, Run, RunId, RunName, Slot
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.drive.log_reader import LogChunk, LogReader, LogSource, log_sources
from launcher.errors import LaunchError, ProvisionError, SpecError
from launcher.ports import LogName, LogPart
from tests.unit.store.test_store import a_fleet


def a_run(*groups: str) -> Run:
    names = [node.name for node in a_fleet(9).nodes]
    slices = tuple(
        Slice(group=group, index=0, place="r1", rack=None, domain=None, nodes=tuple(names[at * 3 : at * 3 + 2]))
        for at, group in enumerate(groups)
    )
    return Run(
        id=RunId("job-abc234"),
        name=RunName("job"),
        task=Task(
            name="job",
            groups=tuple(Group(name=group, topology=TopologyRule(nodes_per_slice=2), run="true") for group in groups),
        ),
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
        if log.attempt not in (0, attempt):
            return LogPart(data=b"", next_offset=0, attempt=log.attempt, exists=False)
        at = max(0, len(data) + offset) if offset < 0 else offset
        part = data[at : at + 4] if offset >= 0 else data[at:]
        return LogPart(data=part, next_offset=at + len(part), attempt=attempt)


def a_source(node: str) -> LogSource:
    return LogSource(label=f"main/{node}", node=NodeName(node), name=LogName(member=MemberName(f"main/{node}")))


class TestSources:
    def test_all_ranks_in_order_on_the_nodes_that_hold_them_now(self) -> None:
        swapped = Slot(member=MemberName("main/1"), node=NodeName("r1-n05"))
        found = log_sources(
            a_run("main"), Record(slots={swapped.member: swapped}), rank=None, node=None, provision=False
        )
        assert [(source.label, source.node) for source in found] == [("main/0", "r1-n00"), ("main/1", "r1-n05")]

    def test_a_rank_by_number_or_by_group(self) -> None:
        run = a_run("main", "judge")
        (found,) = log_sources(run, Record(), rank="judge/1", node=None, provision=False)
        assert found.node == "r1-n04"
        with pytest.raises(SpecError, match="several groups") as several:
            log_sources(run, Record(), rank="1", node=None, provision=False)
        assert several.value.hints == ("write one of `main/1`, `judge/1`",)

    @pytest.mark.parametrize("word", ["7", "main/2", "", "x"])
    def test_an_unknown_rank_is_refused(self, word: str) -> None:
        with pytest.raises(SpecError, match="has no rank"):
            log_sources(a_run("main"), Record(), rank=word, node=None, provision=False)

    def test_an_earlier_attempt_may_be_on_another_node(self) -> None:
        run = a_run("main")
        (here,) = log_sources(run, Record(), rank="0", attempt=2)
        (there,) = log_sources(run, Record(), rank="0", node="r1-n01", attempt=2)
        assert [(one.node, one.name.attempt) for one in (here, there)] == [("r1-n00", 2), ("r1-n01", 2)]
        with pytest.raises(SpecError, match="exclude each other"):
            log_sources(run, Record(), provision=True, attempt=2)

    def test_provisioning_is_of_nodes(self) -> None:
        found = log_sources(a_run("main"), Record(), rank=None, node="r1-n01", provision=True)
        assert [(source.label, source.name.member) for source in found] == [("r1-n01", None)]
        with pytest.raises(SpecError, match="has no node"):
            log_sources(a_run("main"), Record(), rank=None, node="r1-n08", provision=True)


class TestReader:
    def read(self, logs: Logs, *nodes: str) -> LogReader:
        return LogReader(logs, a_run("main"), tuple(map(a_source, nodes)))  # type: ignore[arg-type]

    def show(self, reader: LogReader, *streams: Iterator[LogChunk], labelled: bool = False) -> None:
        """Print what comes, as `logs` does."""
        printer = LogPrinter(labelled=labelled)
        for chunk in chain(*streams):
            printer.show(chunk)
        printer.finish()
        reader.close()

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
        self.show(reader, reader.tail(lines))
        assert capfdbinary.readouterr().out == shown

    def test_lines_of_several_keep_whole_and_labelled(self, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        logs = Logs()
        logs.written = {"a": (1, b"one two three\nfour"), "b": (1, b"five\nsix\n")}
        reader = self.read(logs, "a", "b")
        self.show(reader, reader.tail(0), labelled=True)
        lines = capfdbinary.readouterr().out.splitlines()
        assert sorted(lines) == [b"[main/a] four", b"[main/a] one two three", b"[main/b] five", b"[main/b] six"]

    def test_a_restart_begins_the_new_log_at_its_start(self, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        logs = Logs()
        logs.written["a"] = (1, b"first attempt\n")
        reader = self.read(logs, "a")
        before = list(reader.tail(5))
        logs.written["a"] = (2, b"second\nlonger than the first was\n")
        self.show(reader, iter(before), reader.follow(lambda: True))
        out, err = capfdbinary.readouterr()
        assert out == b"first attempt\nsecond\nlonger than the first was\n"
        assert b"restarted (attempt 2)" in err

    def test_an_attempt_that_a_node_does_not_have_is_told(self) -> None:
        logs = Logs()
        logs.written["a"] = (2, b"second\n")
        source = a_source("a")
        source.name = replace(source.name, attempt=1)
        reader = LogReader(logs, a_run("main"), (source,))  # type: ignore[arg-type]
        assert list(reader.tail(5)) == []
        with pytest.raises(ProvisionError) as missing:
            reader.check()
        assert missing.value.outcomes == (("main/a", "a has no log of attempt 1"),)
        assert "--node NODE" in missing.value.hints[0]

    def test_what_cannot_be_read_is_told_after_the_rest(self, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        logs = Logs()
        logs.written["a"] = (1, b"fine\n")
        reader = self.read(logs, "a", "gone")
        self.show(reader, reader.tail(5), labelled=True)
        with pytest.raises(ProvisionError, match="1 of 2 logs") as missing:
            reader.check()
        assert missing.value.outcomes == (("main/gone", "no route to host"),)
        assert capfdbinary.readouterr().out == b"[main/a] fine\n"
