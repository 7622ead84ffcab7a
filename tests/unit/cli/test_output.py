"""What people read: safe for a terminal, folded, and whole."""

from dataclasses import replace

import pytest

from launcher.cli.output.conclude import conclude
from launcher.cli.output.console import clean, say
from launcher.cli.output.errors import error_text, mistake_text
from launcher.cli.output.plan import agreement_text
from launcher.cli.output.status import age, run_text, runs_text
from launcher.cli.output.table import table
from launcher.core.model.inventory import Inventory, Transport
from launcher.core.model.record import Outcome
from launcher.core.model.run import Cause, MemberName, RunId, RunName, RunState, Wanted
from launcher.core.model.task import Task
from launcher.errors import ExitCode, LaunchError, Mistake, ProvisionError, RemoteError
from launcher.store.rows import RunRow
from launcher.store.user import User


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, é, 日本", "plain, é, 日本"),
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("over\rwritten", "over\\rwritten"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202eevil", "\\u202eevil"),
    ],
)
def test_a_terminal_is_never_commanded(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_a_table_leaves_out_what_nobody_has_and_pads_no_line_end() -> None:
    assert table(("A", "B", "C"), [("1", "", "x"), ("22", "", "\x1b")]) == "A   C\n1   x\n22  \\x1b"


def test_a_plan_names_what_is_sent_and_what_runs_on_the_launching_machine() -> None:
    mounts = {"~/data": "/srv/set\nplan for `job`: nothing is sent"}
    task = Task(name="job", groups=(), workdir="/home/x/code", file_mounts=mounts, on_event="notify --token=t0ps3cret")
    fleet = Inventory(
        name="hall", transport=Transport.SSH, nodes=(), fence_command="ipmitool -H bmc-{node} -P hush4711 power off"
    )
    assert agreement_text(task, fleet).splitlines() == [
        "to each node: workdir `/home/x/code`",
        "to each node: `/srv/set\\nplan for `job`: nothing is sent` to `~/data`",
        "runs on this machine: `on_event`: notify --token=<hidden>",
        "runs on this machine: `fence_command`: ipmitool -H bmc-{node} -P <hidden> power off",
    ]
    assert agreement_text(replace(task, on_event=None), replace(fleet, transport=Transport.SIM)) == ""


@pytest.mark.parametrize(
    ("seconds", "told"), [(-5, "0s"), (59, "59s"), (60, "1m00s"), (3661, "1h01m"), (90000, "1d01h")]
)
def test_ages_have_two_units(seconds: float, told: str) -> None:
    assert age(seconds) == told


def test_a_mistake_points_where_an_editor_can_jump() -> None:
    assert mistake_text(Mistake(what="unknown key", where="t.yaml", line=7, column=9)) == "t.yaml:7:9: unknown key"
    assert mistake_text(Mistake(what="no file", where="t.yaml")) == "t.yaml: no file"
    assert mistake_text(Mistake(what="\x1b[31mred")) == "\\x1b[31mred"


def test_nodes_that_said_the_same_are_told_once() -> None:
    outcomes = (*((f"r07-n{at:02}", "ok") for at in range(1, 16)), ("r07-n16", "permission denied (publickey)"))
    told = error_text(ProvisionError("1 of 16 nodes is not ready", outcomes=outcomes, hints=("a", "a")))
    assert told.splitlines() == [
        "error: 1 of 16 nodes is not ready",
        "  r07-n[01-15]: ok",
        "  r07-n16: permission denied (publickey)",
        "hint: a",
    ]


def test_a_remote_error_shows_where_when_and_the_last_words() -> None:
    error = RemoteError("no answer", node="r07-n04", stage="prepare", elapsed=12.4, tail=("bang\x07",))
    assert error_text(error).splitlines() == ["error: r07-n04: no answer (prepare, after 12 s)", "  | bang\\x07"]


def rank(number: int, state: str, code: int | None = None) -> dict[str, object]:
    rack = f"r{1 + number // 2}"
    place = {"group": "main", "slice": number // 2, "rank": number, "node": f"{rack}-n{1 + number % 2}", "rack": rack}
    return {**place, "domain": rack, "state": state, "exit_code": code}


SNAPSHOT = {
    "name": "job",
    "id": "job-abc234",
    "state": "recovering",
    "status_message": "main/2 \x1b on r2-n1 failed",
    "attempt": 2,
    "restarts": 1,
    "since": 100.0,
    "observed_at": 159.0,
    "inventory": "hall",
    "user": "ann",
    "submit_host": "login",
    "ranks": [rank(0, "running"), rank(1, "running"), rank(2, "failed", 3), rank(3, "running")],
    "spares": [
        {"slice": "main.s0", "node": "r1-n3", "rack": "r1"},
        {"slice": "main.s0", "node": "r1-n4", "rack": "r1"},
    ],
}


def test_ranks_that_stand_alike_share_a_row() -> None:
    assert run_text(SNAPSHOT, 160.0).splitlines() == [
        "job (job-abc234) on `hall`, started by ann@login",
        "recovering for 1m00s: main/2 \\x1b on r2-n1 failed",
        "attempt 2, 1 restart, updated 1s ago",
        "",
        "SLICE    RACK  STATE    RANKS  NODES      EXIT",
        "main.s0  r1    running  0-1    r1-n[1-2]",
        "main.s1  r2    failed   2      r2-n1      3",
        "main.s1  r2    running  3      r2-n2",
        "main.s0  r1    spare           r1-n[3-4]",
    ]


def test_slices_in_one_state_share_a_row_where_there_are_too_many_to_read() -> None:
    ranks = [
        {**rank(number, "lost" if number == 801 else "running"), "slice": at, "rack": f"r{at:03}"}
        for at in range(100)
        for number in range(8 * at, 8 * at + 8 + (at == 99) * 2)
    ]
    for number, one in enumerate(ranks):
        one["node"] = f"{one['rack']}-n{number % 8}"
    spares = [{"slice": f"main.s{at}", "node": f"r{at:03}-n9", "rack": f"r{at:03}"} for at in range(100)]
    shown = run_text({**SNAPSHOT, "ranks": ranks, "spares": spares, "drained": []}, 160.0).splitlines()
    assert [line.split() for line in shown[-4:]] == [
        ["SLICE", "RACK", "STATE", "RANKS", "NODES"],
        ["main.s[0-99]", "r[000-099]", "running", "0-800", "801", "nodes"],
        ["main.s99", "r099", "lost", "801", "r099-n1"],
        ["main.s[0-99]", "r[000-099]", "spare", "100", "nodes"],
    ]


def test_a_dashboard_is_named_with_the_file_of_its_token() -> None:
    shown = run_text({**SNAPSHOT, "dashboard": "http://127.0.0.1:6413"}, 160.0).splitlines()
    assert shown[3] == "Ray dashboard: http://127.0.0.1:6413"
    assert shown[4].endswith("/runs/job-abc234/token")
    missing = run_text({**SNAPSHOT, "dashboard": "none: `ray[default]` is not there"}, 160.0)
    assert "token" not in missing


def test_a_run_is_one_line_of_the_list() -> None:
    assert runs_text([SNAPSHOT], 160.0).splitlines() == [
        "NAME  STATE       RANKS  RACKS   RESTARTS  FOR    MESSAGE",
        "job   recovering  3/4    r[1-2]  1         1m00s  main/2 \\x1b on r2-n1 failed",
    ]


def test_an_older_run_of_the_same_name_is_listed_with_the_id_that_means_it() -> None:
    older, newer = ({**SNAPSHOT, "id": run} for run in ("job-old222", "job-new222"))
    lines = runs_text([older, newer], 160.0).splitlines()
    assert "job-old222" in lines[1]
    assert "job-new222" not in lines[2]


def ended(cause: Cause | None, state: RunState = RunState.FAILED) -> RunRow:
    outcome = cause and Outcome(cause=cause, message="why", member=MemberName("main/2"), tail=("boom\x1b",))
    return RunRow(
        id=RunId("job-abc234"),
        name=RunName("job"),
        state=state,
        wanted=Wanted.RUNNING,
        status_message="why",
        outcome=outcome,
        snapshot="{}",
        owner=None,
        created=0.0,
        ended=1.0,
        fleet="hall",
        source="task.yaml",
        user=User(name="ann", host="login"),
    )


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (Cause.PROGRAM, ExitCode.JOB_FAILED),
        (Cause.PROVISION, ExitCode.REMOTE),
        (Cause.EXHAUSTED, ExitCode.EXHAUSTED),
        (Cause.LEASE_HELD, ExitCode.CONFLICT),
        (Cause.STOPPED, ExitCode.JOB_FAILED),
        (None, ExitCode.JOB_FAILED),
    ],
)
def test_each_way_to_end_has_its_exit_code(
    cause: Cause | None, code: ExitCode, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(LaunchError) as raised:
        conclude(ended(cause))
    assert raised.value.code is code
    assert ("  | boom\\x1b" in capsys.readouterr().err) is (cause is not None)


def test_every_cause_is_concluded() -> None:
    for cause in Cause:
        if cause is Cause.SUCCESS:
            conclude(ended(cause, RunState.SUCCEEDED))
        else:
            with pytest.raises(LaunchError):
                conclude(ended(cause))


def test_messages_escape_what_commands_a_terminal_and_keep_our_colours(capsys: pytest.CaptureFixture[str]) -> None:
    say("\x1b[31merror\x1b[0m: node said \x1b]0;title\x07 and \x1b[2J")
    assert capsys.readouterr().err == "\x1b[31merror\x1b[0m: node said \\x1b]0;title\\x07 and \\x1b[2J\n"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("main.run.sh: line 3: conda: command not found", "`conda` was not found"),
        ("main.run.sh: line 1: python: command not found", "or write `python3`"),
        ("timeout: not found", "`timeout` was not found"),
    ],
)
def test_a_command_that_was_not_found_is_explained(line: str, hint: str) -> None:
    row = ended(Cause.PROGRAM)
    assert row.outcome
    with pytest.raises(LaunchError) as raised:
        conclude(replace(row, outcome=replace(row.outcome, exit_code=127, tail=("starting", line))))
    assert hint in raised.value.hints[0]
    assert "~/.bashrc" in raised.value.hints[0]
