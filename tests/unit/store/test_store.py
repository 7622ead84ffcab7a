"""The store: one writer at a time, nothing lost, nothing given twice, whoever is killed when."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.control.reconcile import Decision
from launcher.core.control.status import RankState, RankStatus, RunStatus
from launcher.core.model.action_key import ActionKey, key_of
from launcher.core.model.actions import Acquire, Kill, Level, Reason, Release, Relocate, Start, Why
from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import AgentReport, Head, HeadSeen, Observation, Seen, Unseen
from launcher.core.model.operator_requests import OperatorRequest, RequestKind
from launcher.core.model.placement import Placement, Shortfall, Slice
from launcher.core.model.receipt import Answer, Receipt, Result
from launcher.core.model.record import Evidence, Exit, Gang, Outcome, ProgramFailure, Record, Retry, RunTimer, Timers
from launcher.core.model.run import Cause, GangName, MemberName, Run, RunName, RunState, Slot, Wanted
from launcher.core.model.simulation import SimSettings
from launcher.core.model.task import Group, RecoveryPolicy, RestartWith, Task, TopologyRule
from launcher.core.queue.preemption import COOL_DOWN_S
from launcher.errors import ConflictError, LaunchError, NoCapacityError, OtherVersionError, SpecError, StoreError
from launcher.store import database, decision_log
from launcher.store.codec import dump
from launcher.store.decision_log import LoggedDecision, Made, made_of
from launcher.store.journal import EventKind
from launcher.store.owner import Owner
from launcher.store.status_reads import StatusReader
from launcher.store.store import Store
from tests.situations import Situation, make_run

REASON = Reason(why=Why.START, message="first start")


def a_fleet(nodes: int) -> Inventory:
    names = [NodeName(f"r1-n{at:02}") for at in range(nodes)]
    return Inventory(
        name="hall",
        transport=Transport.SIM,
        nodes=tuple(Node(name=name, rack=RackName("r1"), access=Access(address=name)) for name in names),
        sim=SimSettings(),
    )


def a_task(nodes: int) -> Task:
    rule = TopologyRule(nodes_per_slice=nodes)
    return Task(name="job", groups=(Group(name="job", topology=rule, run="true"),))


def take(fleet: Inventory, count: int):
    """Answer a `decide` that takes the first free nodes, or refuses."""

    def decide(taken):
        free = tuple(node.name for node in fleet.nodes if node.name not in taken)[:count]
        if len(free) < count:
            return Shortfall(
                group="job",
                slices=1,
                nodes_per_slice=count,
                spares=0,
                within="rack",
                placed=0,
                largest=len(free),
                racks=(),
                suggestions=(),
            )
        part = Slice(group="job", index=0, place="r1", rack=RackName("r1"), domain="d", nodes=free)
        return Placement(slices=(part,))

    return decide


def launch(store: Store, name: str = "job", *, nodes: int = 2, fleet_nodes: int = 4, source: str = "task.yaml") -> Run:
    fleet = a_fleet(fleet_nodes)
    return store.launch(
        name=RunName(name),
        task=a_task(nodes),
        fleet=fleet,
        decide=take(fleet, nodes),
        source=source,
        at=100.0,
    )


def a_status(run: Run, **changes) -> RunStatus:
    status = RunStatus(
        name=run.name,
        id=run.id,
        state=RunState.RUNNING,
        status_message="2 of 2 ranks run",
        attempt=1,
        restarts=0,
        since=1.0,
        observed_at=2.0,
        inventory="hall",
        ranks=(),
        spares=(),
    )
    return replace(status, **changes)


@pytest.fixture
def store(tmp_path: Path):
    store = Store(tmp_path / "home")
    yield store
    store.close()


def test_home_and_file_are_private(store: Store) -> None:
    assert store.home.stat().st_mode & 0o777 == 0o700
    assert (store.home / "state.db").stat().st_mode & 0o777 == 0o600


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    Store(tmp_path).close()
    with sqlite3.connect(tmp_path / "state.db") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(SpecError, match="newer nvlaunch"):
        Store(tmp_path)


def test_a_file_of_before_the_first_release_is_refused_and_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "state.db") as db:
        db.execute("CREATE TABLE runs (id TEXT)")
        db.execute("PRAGMA user_version = 5")
    with pytest.raises(SpecError, match="before the first release"):
        Store(tmp_path)
    with sqlite3.connect(tmp_path / "state.db") as db:
        assert db.execute("PRAGMA user_version").fetchone() == (5,)


def test_a_run_that_only_another_version_can_read_is_told_with_what_to_do(store: Store) -> None:
    run = launch(store)
    with sqlite3.connect(store.home / "state.db") as db:
        db.execute("""UPDATE runs SET record = '{"gangs":{"run":{"broken":{"why":"new","message":"x"}}}}'""")
    with pytest.raises(LaunchError, match="written by another version") as told:
        store.load(run.id)
    assert told.value.hints[0].startswith("use the version that started it")
    assert store.find(run.id).name == "job"


STRANGE = {
    "state": "state = 'paused'",
    "wanted": "wanted = 'perhaps'",
    "outcome": """outcome = '{"cause":"boredom","message":"x","tail":[]}'""",
    "outcome that is no object": "outcome = '7'",
}


@pytest.mark.parametrize("change", STRANGE.values(), ids=STRANGE)
def test_a_row_of_another_version_is_named_and_hides_no_other(store: Store, change: str) -> None:
    strange, good = launch(store, "strange", nodes=1), launch(store, "good", nodes=1)
    with store._db.write() as db:
        db.execute(f"UPDATE runs SET {change} WHERE id = ?", (strange.id,))
    rows, unreadable = store.live()
    assert [row.id for row in rows] == [row.id for row in store.runs()] == [good.id]
    assert [error.run for error in unreadable] == [strange.id]
    with pytest.raises(OtherVersionError, match=f"`{strange.id}` was written by another version"):
        store.find("strange")
    assert {node: use.used_by for node, use in store.unavailable(strange.fleet).items()}["r1-n00"] == "strange"


def test_what_another_version_asked_or_answered_is_told_as_such(store: Store) -> None:
    run = launch(store)
    store.requests.add(run.id, RequestKind.RESUME, by="me", at=1.0)
    store.receipts(run.id, [(Acquire(reason=REASON, node=NodeName("n")), Answer(result=Result.DONE))], 1.0)
    with store._db.write() as db:
        db.execute("UPDATE operator_requests SET kind = 'dance'")
        db.execute("UPDATE journal SET receipt = '{}' WHERE receipt IS NOT NULL")
        db.execute("UPDATE runs SET wanted = 'perhaps', snapshot = '[]'")
    asked = (
        lambda: store.requests.after(run.id, 0),
        lambda: store.receipts_after(run.id, 0),
        lambda: store.wanted(run.id),
        lambda: store.standing(run.id),
    )
    for ask in asked:
        with pytest.raises(OtherVersionError, match=run.id):
            ask()


def test_an_entry_of_another_version_is_shown_as_it_is(store: Store) -> None:
    run = launch(store)
    with store._db.write() as db:
        db.execute("UPDATE journal SET kind = 'paused'")
    (event,) = store.journal.events(run.id)
    assert (event.kind.value, event.message) == ("paused", "1 slice on 2 nodes of `hall`")


def test_a_locked_file_is_an_error_that_may_pass_and_a_broken_query_is_a_bug(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = launch(store)
    monkeypatch.setattr(database, "BUSY_S", 0.05)
    other = Store(store.home)
    with store._db.write():
        with pytest.raises(StoreError, match="database is locked") as told:
            other.want_nothing(run.id)
        assert told.value.hints
    other.want_nothing(run.id)
    with pytest.raises(sqlite3.OperationalError, match="syntax error"):
        store._db.read("SELECT * FROM nothing")


def test_a_decision_that_was_not_kept_is_kept_when_it_is_made_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = launch(store)
    monkeypatch.setattr(database, "BUSY_S", 0.05)
    other = Store(store.home)
    before, after = Record(), Record(requested={NodeName("r1-n00")})
    other.intend(run.id, before, (), "starting", RunState.STARTING, 1.0)
    with store._db.write(), pytest.raises(StoreError):
        other.intend(run.id, after, (), "starting", RunState.STARTING, 2.0)
    assert other.load(run.id)[1] == before
    other.intend(run.id, after, (), "starting", RunState.STARTING, 3.0)
    assert other.load(run.id)[1] == after


def test_domains_are_remembered_by_inventory_and_the_last_word_counts(tmp_path: Path) -> None:
    known = Store(tmp_path).domains
    known.keep("hall", {NodeName("r1-n1"): "a.1", NodeName("r1-n2"): "a.1"}, at=1.0)
    known.keep("hall", {NodeName("r1-n2"): "b.1"}, at=2.0)
    known.keep("annex", {NodeName("r1-n1"): "c.1"}, at=3.0)
    assert Store(tmp_path).domains.of("hall") == {"r1-n1": "a.1", "r1-n2": "b.1"}


def test_a_home_that_is_a_file_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(SpecError, match="cannot store runs"):
        Store(tmp_path / "home")


def test_junk_in_place_of_the_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"junk" * 1000)
    with pytest.raises(LaunchError, match="not a database") as told:
        Store(tmp_path)
    assert told.value.hints[0].startswith("the file is damaged")


def test_words_and_file_names_may_be_no_text(store: Store) -> None:
    with pytest.raises(SpecError, match="no run is named"):
        store.find("\udcff")
    with pytest.raises(SpecError, match="no run is named"):
        StatusReader(store.home).find("\udcff")
    run = launch(store, source="/tasks/\udcff.yaml")
    assert store.find(run.id).source == "/tasks/?.yaml"


def test_one_slice_on_one_node_is_told_in_the_singular(store: Store) -> None:
    (launched,) = store.journal.events(launch(store, nodes=1).id)
    assert launched.message == "1 slice on 1 node of `hall`"


def test_launch_keeps_the_run_with_its_own_nodes_only(store: Store) -> None:
    run = launch(store)
    loaded, record = store.load(run.id)
    assert loaded == run
    assert [node.name for node in loaded.fleet.nodes] == ["r1-n00", "r1-n01"]
    assert loaded.fleet.sim is not None
    assert loaded.fleet.sim.speed == float("inf")
    assert record == Record()
    assert {name: taken.used_by for name, taken in store.unavailable(a_fleet(4)).items()} == {
        "r1-n00": "job",
        "r1-n01": "job",
    }


def test_a_refusal_leaves_nothing(store: Store) -> None:
    with pytest.raises(NoCapacityError) as refused:
        launch(store, nodes=5)
    assert refused.value.shortfall.largest == 4
    assert store.runs() == ()


def test_a_name_is_free_again_when_its_run_is_over(store: Store) -> None:
    first = launch(store)
    with pytest.raises(ConflictError, match="named `job` is starting"):
        launch(store)
    store.finish(first.id, RunState.STOPPED, 110.0)
    second = launch(store)
    assert store.find("job").id == second.id
    assert store.find(first.id).state is RunState.STOPPED
    assert store.unavailable(a_fleet(4)).keys() == {"r1-n00", "r1-n01"}


def test_finish_frees_the_nodes_and_happens_once(store: Store) -> None:
    run = launch(store)
    store.finish(run.id, RunState.FAILED, 110.0)
    store.finish(run.id, RunState.SUCCEEDED, 120.0)
    row = store.find("job")
    assert (row.state, row.ended) == (RunState.FAILED, 110.0)
    assert store.unavailable(a_fleet(4)) == {}
    assert [event.kind for event in store.journal.events(run.id)] == [EventKind.LAUNCHED, EventKind.ENDED]


def test_a_run_that_is_over_keeps_neither_secrets_nor_files_at_home(store: Store) -> None:
    run = launch(store)
    folder = store.home / "runs" / run.id
    for name in (
        "files/data",
        "wheels-1/data",
        "rclone-1/data",
        "images-1/data",
        "image-identities/1",
        ".snapshot-x/made/data",
        "secrets.json",
        "token",
        "tls/authority.pem",
        "controller.log",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    store.finish(run.id, RunState.SUCCEEDED, 110.0)
    assert [path.name for path in folder.iterdir()] == ["controller.log"]


def test_an_unknown_run_names_its_nearest(store: Store) -> None:
    launch(store, "vla-pretrain")
    with pytest.raises(SpecError) as unknown:
        store.find("vla-pretrian")
    assert unknown.value.hints == ("did you mean `vla-pretrain`?",)


FULL = Record(
    receipts_seen=7,
    slots={MemberName("job/0"): Slot(member=MemberName("job/0"), node=NodeName("r1-n00"), generation=2)},
    gangs={GangName("run"): Gang(attempt=3, restarts=1, broken=REASON)},
    exits={MemberName("job/0"): Exit(attempt=3, code=None, at=5.0, tail=("\x1b[31mred\udc80",))},
    leased={NodeName("r1-n00")},
    signalled={(NodeName("r1-n00"), None), (NodeName("r1-n01"), GangName("run"))},
    kills=[
        Kill(
            reason=REASON,
            node=NodeName("r1-n00"),
            level=Level.RANK,
            member=MemberName("job/0"),
            gang=GangName("run"),
        ),
    ],
    retries=[
        (key_of(Release(reason=REASON, node=NodeName("r1-n00"))), Retry(count=2, at=7.5, message="no answer")),
        (ActionKey("start", gang=GangName("run"), attempt=3), Retry(count=1, at=8.0)),
    ],
    misplaced={"job.s0": Retry(count=1, at=2.0)},
    since=Timers(unseen={NodeName("r1-n00"): 3.0}, run={RunTimer.HEAD_UNSEEN: 4.0}),
    former_heads=[None, NodeName("r1-n01")],
    outcome=Outcome(cause=Cause.PROGRAM, message="rank 0 failed", exit_code=3, tail=("boom",)),
)


def test_a_record_comes_back_as_it_was(store: Store) -> None:
    run = launch(store)
    store.intend(run.id, FULL, (), "rank 0 failed", RunState.STOPPING, 9.0)
    _, back = store.load(run.id)
    tail = ("\x1b[31mred?",)
    assert back == replace(FULL, exits={MemberName("job/0"): replace(FULL.exits[MemberName("job/0")], tail=tail)})
    row = store.find("job")
    assert (row.outcome, row.status_message, row.state) == (FULL.outcome, "rank 0 failed", RunState.STOPPING)


def test_the_journal_tells_intents_receipts_and_changed_headlines_in_order(store: Store) -> None:
    run = launch(store)
    claim = Acquire(reason=REASON, node=NodeName("r1-n00"))
    record = Record(leased={claim.node})
    store.intend(run.id, record, (claim,), "claiming", RunState.STARTING, 1.0)
    (first,) = store.receipts(run.id, [(claim, Answer(result=Result.HELD, message="held by bob"))], 2.0)
    store.intend(run.id, record, (claim,), "claiming", RunState.RECOVERING, 3.0)
    start = Start(reason=REASON, gang=GangName("run"), attempt=1, restarts=0, slots=())
    (second,) = store.receipts(run.id, [(start, Answer(result=Result.DONE))], 4.0)
    told = [(event.seq, event.kind, event.subject, event.message) for event in store.journal.events(run.id, after=1)]
    assert told == [
        (2, EventKind.STATUS, "starting", "claiming"),
        (3, EventKind.INTENT, "acquire:r1-n00", "first start"),
        (4, EventKind.RECEIPT, "acquire:r1-n00", "held: held by bob"),
        (5, EventKind.STATUS, "recovering", "claiming"),
        (6, EventKind.INTENT, "acquire:r1-n00", "first start"),
        (7, EventKind.RECEIPT, "start:run@1", "done"),
    ]
    assert store.receipts_after(run.id, 0) == (first, second)
    assert store.receipts_after(run.id, first.seq) == (second,)


def test_what_a_person_should_see_to_is_told_besides_what_came_of_an_action(store: Store) -> None:
    run = launch(store)
    claim = Acquire(reason=REASON, node=NodeName("r1-n00"))
    answer = Answer(result=Result.DONE, notes=("IMEX left as it is",), warnings=("IMEX does not run",))
    store.receipts(run.id, [(claim, answer)], 2.0)
    told = [(event.kind, event.subject, event.message) for event in store.journal.events(run.id, after=1)]
    assert told == [
        (EventKind.RECEIPT, "acquire:r1-n00", "done: IMEX left as it is"),
        (EventKind.WARNING, "acquire:r1-n00", "IMEX does not run"),
    ]


def test_a_tick_without_news_writes_nothing(store: Store) -> None:
    run = launch(store)
    store.intend(run.id, FULL, (), "steady", RunState.RUNNING, 1.0)
    before = _changes(store.home)
    store.intend(run.id, replace(FULL), (), "steady", RunState.RUNNING, 2.0)
    assert _changes(store.home) == before


def _changes(home: Path) -> int:
    return (home / "state.db-wal").stat().st_size


def test_a_snapshot_is_written_when_it_says_something_new(store: Store) -> None:
    run = launch(store)
    store.publish(run.id, a_status(run, observed_at=2.0))
    store.publish(run.id, a_status(run, observed_at=3.0))
    assert '"observed_at":2.0' in (store.find("job").snapshot)
    rank = RankStatus(
        group="job",
        slice=0,
        rank=0,
        node=NodeName("r1-n00"),
        rack=RackName("r1"),
        domain=None,
        state=RankState.RUNNING,
        exit_code=None,
    )
    store.publish(run.id, a_status(run, observed_at=4.0, ranks=(rank,)))
    assert '"observed_at":4.0' in (store.find("job").snapshot)


def test_wanted_is_read_with_the_run(store: Store) -> None:
    run = launch(store)
    store.want_nothing(run.id)
    store.want_nothing(run.id)
    assert store.wanted(run.id) is Wanted.NOTHING
    assert store.load(run.id)[0].wanted is Wanted.NOTHING
    assert [event.kind for event in store.journal.events(run.id)].count(EventKind.REQUESTED) == 1


def test_a_world_is_kept_by_fleet(store: Store) -> None:
    assert store.worlds.world("hall") is None
    store.worlds.save_world("hall", "{}")
    store.worlds.save_world("hall", '{"a":1}')
    assert store.worlds.world("hall") == '{"a":1}'


def test_threads_share_one_store(store: Store) -> None:
    run = launch(store)
    action = Release(reason=REASON, node=None)
    with ThreadPoolExecutor(8) as pool:
        made = list(
            pool.map(lambda at: store.receipts(run.id, [(action, Answer(result=Result.KILLED))], at), range(64))
        )
    assert sorted(receipt.seq for (receipt,) in made) == list(range(2, 66))


class TestOwner:
    def test_another_live_process_keeps_the_run(self, store: Store) -> None:
        run = launch(store)
        with subprocess.Popen([sys.executable, "-c", _OWN, str(store.home), run.id], stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == b"mine\n"
            with pytest.raises(ConflictError, match=f"driven by process {other.pid}"):
                store.owners.take(run.id, Owner.current())
            other.kill()
        store.owners.take(run.id, Owner.current())
        assert store.find("job").owner == Owner.current()

    def test_the_number_of_a_dead_process_used_again_is_another_process(self) -> None:
        me = Owner.current()
        assert me.alive()
        assert not replace(me, started=me.started + 1).alive()
        assert not replace(me, boot="another boot").alive()

    def test_of_another_host_we_cannot_tell(self) -> None:
        assert replace(Owner.current(), host="elsewhere", pid=1).alive()

    def test_disown_leaves_what_another_has_taken(self, store: Store, tmp_path: Path) -> None:
        run = launch(store)
        gone = replace(Owner.current(), started=1)
        store.owners.take(run.id, gone)
        second = Store(store.home)
        second.owners.take(run.id, Owner.current())
        store.owners.release(run.id)
        assert store.find("job").owner == Owner.current()
        second.owners.release(run.id)
        assert store.find("job").owner is None
        second.close()


_OWN = """
import sys
from pathlib import Path
from launcher.store.owner import Owner
from launcher.store.store import Store
Store(Path(sys.argv[1])).owners.take(sys.argv[2], Owner.current())
print("mine", flush=True)
sys.stdin.read() if sys.stdin.isatty() else __import__("signal").pause()
"""

_LAUNCH = """
import os
import sys
from pathlib import Path
from launcher.errors import LaunchError
from launcher.store.store import Store
from tests.unit.store.test_store import launch
number = next((at for at in range(7) if os.fork() == 0), 7)  # eight processes that have all imports
store = Store(Path(sys.argv[1]))
os.read(0, 1)
try:
    end = (0, *(node.name for node in launch(store, f"job-{number}", nodes=1).fleet.nodes))
except LaunchError as error:
    end = (error.code,)
os.write(1, (" ".join(map(str, end)) + os.linesep).encode())  # whole lines, also where output is unbuffered
if number == 7:
    for _ in range(7):
        os.wait()
"""

_WRITE = """
import sys
from pathlib import Path
from launcher.core.model.actions import Release
from launcher.core.model.receipt import Answer, Result
from launcher.store.store import Store
from launcher.core.model.run import RunState
from tests.unit.store.test_store import FULL, REASON, launch
store = Store(Path(sys.argv[1]))
run = launch(store)
print(run.id, flush=True)
for at in range(10**9):
    action = Release(reason=REASON, node=f"n{at}")
    store.intend(run.id, FULL, (action, action), f"tick {at}", RunState.RUNNING, at)
    store.receipts(run.id, [(action, Answer(result=Result.DONE))], at)
"""


def _python(program: str, *words: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )


@pytest.mark.parametrize("attempt", range(2))
def test_eight_processes_share_four_places(tmp_path: Path, attempt: int) -> None:
    """Also the first use of a home: all eight make the file at once."""
    runners = _python(_LAUNCH, str(tmp_path / "home"))
    out, _ = runners.communicate(b"x" * 8, timeout=60)
    assert runners.returncode == 0
    ends = sorted(out.decode().splitlines())
    assert ends == ["0 r1-n00", "0 r1-n01", "0 r1-n02", "0 r1-n03", "3", "3", "3", "3"]


def test_kill_at_any_moment_leaves_whole_transactions(tmp_path: Path) -> None:
    for at in range(3):
        home = tmp_path / str(at)
        writer = _python(_WRITE, str(home))
        assert writer.stdout is not None
        run = writer.stdout.readline().decode().strip()
        store = Store(home)
        deadline = time.monotonic() + 30
        while len(store.journal.events(run)) < 20 + at and time.monotonic() < deadline:
            pass
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        events = store.journal.events(run)
        assert len(events) >= 20
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        intents = [event for event in events if event.kind is EventKind.INTENT]
        headlines = [event for event in events if event.kind is EventKind.STATUS]
        assert len(intents) == 2 * len(headlines)
        assert store.find("job").status_message == headlines[-1].message
        store.finish(run, RunState.STOPPED, 1.0)
        launch(store)
        store.close()


class TestFolding:
    def test_retries_that_fail_alike_do_not_make_the_journal_grow(self, store: Store) -> None:
        run = launch(store)
        action = Release(reason=REASON, node=NodeName("r1-n00"))
        silent = Answer(result=Result.FAILED, message="no answer", tail=("timed out",))
        seen = 0
        for at in range(50):
            store.intend(run.id, Record(receipts_seen=seen), (action,), "stopping", RunState.STOPPING, float(at))
            seen = store.receipts(run.id, [(action, silent)], float(at))[0].seq
            assert [receipt.seq for receipt in store.receipts_after(run.id, seen - 1)] == [seen]
        told = [event for event in store.journal.events(run.id) if event.subject == str(key_of(action))]
        assert len(told) == 6
        assert (told[-1].times, told[-1].evidence) == (50, ("timed out",))

    def test_what_comes_of_it_at_last_stands_by_itself_and_counting_begins_anew(self, store: Store) -> None:
        run = launch(store)
        action = Release(reason=REASON, node=NodeName("r1-n00"))
        results = [Result.FAILED] * 5 + [Result.KILLED] + [Result.FAILED] * 2
        for at, result in enumerate(results):
            store.intend(run.id, Record(), (action,), "stopping", RunState.STOPPING, float(at))
            store.receipts(run.id, [(action, Answer(result=result))], float(at))
        receipts = [
            (event.message, event.times) for event in store.journal.events(run.id) if event.kind is EventKind.RECEIPT
        ]
        assert receipts == [
            *(("failed", 1), ("failed", 2), ("failed", 5)),
            *(("killed", 1), ("failed", 1), ("failed", 2)),
        ]

    def test_an_action_that_succeeds_again_and_again_is_told_each_time(self, store: Store) -> None:
        run = launch(store)
        action = Release(reason=REASON, node=NodeName("r1-n00"))
        for at in range(5):
            store.intend(run.id, Record(), (action,), "on", RunState.STOPPING, float(at))
            store.receipts(run.id, [(action, Answer(result=Result.DONE))], float(at))
        assert [event.kind for event in store.journal.events(run.id)].count(EventKind.INTENT) == 5


class TestLooks:
    def look(self, run: Run, at: float, record: Record = FULL) -> LoggedDecision:
        seen = Observation(
            at=at,
            nodes={
                NodeName("r1-n00"): Unseen(message="no answer"),
                NodeName("r1-n01"): Seen(agent=AgentReport(head_silent=2.0), leftovers=1),
            },
            head=HeadSeen(head=Head(heard={NodeName("r1-n00"): float("inf")})),
            requests=(OperatorRequest(seq=1, at=1.0, kind=RequestKind.RESUME),),
            in_flight=frozenset({ActionKey("acquire", node=NodeName("b")), ActionKey("resize")}),
        )
        action = Relocate(reason=REASON, slice="job/0", without=(NodeName("r1-n00"),))
        made = Made(actions=(action,), record=record, status_message="on", state=RunState.RECOVERING)
        return LoggedDecision(run=run, seen=seen, record=record, made=made)

    def test_what_a_decision_was_made_of_comes_back_as_it_was(self, store: Store) -> None:
        run = launch(store)
        moved = replace(run, placement=replace(run.placement, reasons=("elsewhere",)))
        plain = replace(FULL, exits={})
        looks = [self.look(run, 1.0, plain), self.look(moved, 2.0, plain), self.look(run, 3.0, plain)]
        for look in looks:
            store.intend(run.id, plain, look.made.actions, "on", RunState.RECOVERING, look.seen.at, look)
        assert list(store.decisions.of(run.id)) == looks

    def test_a_long_run_keeps_its_beginning_and_the_newest(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(decision_log, "FIRST", 3)
        monkeypatch.setattr(decision_log, "NEWEST", 4)
        run = launch(store)
        for at in range(20):
            look = self.look(run, float(at), Record())
            store.intend(run.id, Record(), look.made.actions, "on", RunState.RUNNING, float(at), look)
        assert [look.seen.at for look in store.decisions.of(run.id)] == [0, 1, 2, 16, 17, 18, 19]

    def test_ranks_that_start_one_by_one_are_stored_in_space_that_grows_with_their_number(self, store: Store) -> None:
        def starts(ranks: int) -> Decision:
            here = Situation(make_run(slices=1, nodes=ranks, recovery=RecoveryPolicy(restart_with=RestartWith.MEMBER)))
            here.ready()
            here.verify(here.decide().actions)
            return here.decide()

        few, many = starts(10), starts(100)
        assert [len(action.slots) for action in many.actions if isinstance(action, Start)] == [100] * 100
        assert len(dump(Made, made_of(many))) < 11 * len(dump(Made, made_of(few)))
        run = launch(store)
        (receipt,) = store.receipts(run.id, [(many.actions[0], Answer(result=Result.DONE))], 1.0)
        assert store.receipts_after(run.id, 0) == (receipt,)
        assert len(dump(Receipt, receipt)) < 600


class TestPreemption:
    def test_a_run_that_ends_soon_after_it_has_preempted_cools_down_under_any_number(self, store: Store) -> None:
        launch(store, "victim")
        run = launch(store, "big-1")
        store.queue.preempt((RunName("victim"),), run, 101.0)
        outcome = Outcome(cause=Cause.PROGRAM, message="main/0 exited with 1")
        store.intend(run.id, Record(outcome=outcome), (), "over", RunState.FAILED, 110.0)
        store.finish(run.id, RunState.FAILED, 110.0)
        for name in ("big-2", "other"):
            store.queue.put(name=RunName(name), task=a_task(2), fleet=a_fleet(4), source="task.yaml", at=111.0)
        waiting = {one.name: one.cools_down for one in store.queue.state("hall", 120.0).waiting}
        assert waiting == {"big-2": COOL_DOWN_S - 10.0, "other": 0.0}

    def test_a_run_that_took_its_time_does_not_cool_down(self, store: Store) -> None:
        launch(store, "victim")
        run = launch(store, "big")
        store.queue.preempt((RunName("victim"),), run, 101.0)
        outcome = Outcome(cause=Cause.PROGRAM, message="main/0 exited with 1")
        store.intend(run.id, Record(outcome=outcome), (), "over", RunState.FAILED, 5000.0)
        store.finish(run.id, RunState.FAILED, 5000.0)
        store.queue.put(name=RunName("big"), task=a_task(2), fleet=a_fleet(4), source="task.yaml", at=5001.0)
        (waiting,) = store.queue.state("hall", 5002.0).waiting
        assert waiting.cools_down == 0.0


class TestLedger:
    def failed(self, cause: Cause) -> Record:
        return Record(failed_nodes={NodeName("r1-n00"): Evidence(cause=cause, message="Xid 79", tail=("NVRM",))})

    @pytest.mark.parametrize(
        ("cause", "incident", "kept_out"),
        [
            (Cause.NODE, True, True),
            (Cause.EXHAUSTED, True, True),
            (Cause.PROVISION, True, False),
            (Cause.LEASE_HELD, False, False),
        ],
    )
    def test_only_what_speaks_against_the_node_keeps_other_runs_off(
        self, store: Store, cause: Cause, incident: bool, kept_out: bool
    ) -> None:
        run = launch(store)
        for at in range(3):
            store.intend(run.id, self.failed(cause), (), f"tick {at}", RunState.RUNNING, 5.0)
        store.finish(run.id, RunState.FAILED, 6.0)
        assert len(store.ledger.incidents("hall")) == incident
        assert (NodeName("r1-n00") in store.unavailable(a_fleet(4))) is kept_out
        with_it = launch(store, "second", nodes=4) if not kept_out else None
        if with_it is None:
            with pytest.raises(NoCapacityError):
                launch(store, "second", nodes=4)

    def test_a_node_that_proved_well_again_is_free_of_its_quarantine(self, store: Store) -> None:
        run = launch(store)
        store.intend(run.id, self.failed(Cause.NODE), (), "bad", RunState.RUNNING, 5.0)
        assert store.ledger.quarantines("hall")[0].message == "Xid 79"
        store.intend(run.id, Record(), (), "good", RunState.RUNNING, 6.0)
        assert store.ledger.quarantines("hall") == ()
        kinds = [event.kind for event in store.journal.events(run.id)]
        assert kinds.index(EventKind.NODE_FAILED) < kinds.index(EventKind.READMITTED)

    def failing(self, *failures: tuple[int, int, int]) -> Record:
        """What a run of eight ranks knows of its failures: rank, exit code, and how many ranks failed alike."""
        nodes = "r1-n[00-07]"
        return Record(
            program_failures=[
                ProgramFailure(
                    node=NodeName("r1-n03"),
                    member=MemberName(f"main/{rank}"),
                    attempt=1,
                    code=code,
                    ranks=8,
                    alike=alike,
                    nodes=nodes,
                )
                for rank, code, alike in failures
            ]
        )

    def test_failures_noted_by_a_clock_that_was_ahead_say_nothing(self, store: Store) -> None:
        for at, name in enumerate("abcde"):
            run = launch(store, name, fleet_nodes=8)
            when = 1e9 - at
            store.intend(run.id, self.failing((at + 1, 139, 1)), (), "failed", RunState.FAILED, when)
            store.finish(run.id, RunState.FAILED, when)
        assert store.ledger.quarantines("hall") == ()

    def test_programs_of_many_that_fail_first_on_a_node_quarantine_it_and_a_return_forgets_them(
        self, store: Store
    ) -> None:
        for at, name in enumerate("abcde"):
            run = launch(store, name, fleet_nodes=8)
            assert store.ledger.quarantines("hall") == ()
            store.intend(run.id, self.failing((at + 1, 139, 1)), (), "failed", RunState.FAILED, 100.0 + at)
            store.finish(run.id, RunState.FAILED, 100.0 + at)
        (kept,) = store.ledger.quarantines("hall")
        assert (kept.node, kept.run) == ("r1-n03", run.id)
        assert kept.message == "5 programs of 1 user failed first here, and others beside it went on"
        assert store.ledger.suspects("hall", run.id) == {"r1-n03": kept.message}
        assert "quarantined" in next(e for e in store.journal.events(run.id) if e.kind is EventKind.WARNING).message
        assert store.ledger.readmit("hall", NodeName("r1-n03"), by="ann", at=200.0)
        again = launch(store, "f", fleet_nodes=8)
        store.intend(again.id, self.failing((6, 139, 1)), (), "failed", RunState.FAILED, 201.0)
        assert store.ledger.quarantines("hall") == ()

    def test_what_says_nothing_about_a_node_leaves_no_incident(self, store: Store) -> None:
        run = launch(store, fleet_nodes=8)
        store.intend(run.id, self.failing((1, 127, 1), (2, 1, 8)), (), "failed", RunState.FAILED, 100.0)
        assert store.ledger.incidents("hall") == ()
        store.intend(run.id, self.failing((1, 127, 1), (2, 1, 8), (3, 1, 1)), (), "more", RunState.FAILED, 101.0)
        assert [one.message for one in store.ledger.incidents("hall")] == [
            "first failing rank was on this node: main/3 exited with 1"
        ]

    def test_the_next_run_of_a_program_avoids_where_it_failed_first_for_a_day(self, store: Store) -> None:
        run = launch(store, "sweep-1", fleet_nodes=8)
        store.intend(run.id, self.failing((1, 3, 1)), (), "failed", RunState.FAILED, 100.0)
        assert store.ledger.avoided("hall", "sweep-2", 200.0) == {"r1-n03"}
        assert store.ledger.avoided("hall", "other", 200.0) == set()
        assert store.ledger.avoided("hall", "sweep-2", 100_000.0) == set()

    def test_what_a_killed_controller_had_kept_is_not_noted_twice(self, store: Store) -> None:
        run = launch(store)
        store.intend(run.id, self.failed(Cause.NODE), (), "bad", RunState.RUNNING, 5.0)
        again = Store(store.home)
        again.intend(run.id, self.failed(Cause.NODE), (), "worse", RunState.RUNNING, 6.0)
        assert len(again.ledger.incidents("hall")) == 1
