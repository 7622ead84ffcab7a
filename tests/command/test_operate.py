"""What operators do to nodes and runs that go on: as commands of their own, over the imaginary fleet."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.core.model.nodeset import NodeName
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.record import Evidence, ProgramFailure, Record
from launcher.core.model.run import Cause, MemberName, RunId, RunState
from launcher.store.store import Store
from launcher.store.user import User
from tests.command.test_runs import TASK, Desk, until
from tests.command.test_runs import desk as desk  # noqa: PLC0414 a fixture
from tests.desk import files_of

HOSTILE = "\x1b[31mred\n`rm -rf` \u202e"


@pytest.fixture
def running(desk: Desk) -> Iterator[Desk]:
    """A run on r1-n[1-2] and r2-n[1-2], beside an empty rack, that goes on for longer than the test."""
    desk.fleet("{seed: 1, speed: 20, run_s: inf}")
    fleet = desk.folder / "fleet.yaml"
    fleet.write_text(fleet.read_text().replace('"r2-n[1-3]"}', '"r2-n[1-3]"}, r3: {nodes: "r3-n[1-3]"}'))
    assert desk.up("-d").returncode == 0
    until(lambda: desk.state() == "running", "running")
    yield desk
    desk.run("down", "job", "-y")


def idle(desk: Desk) -> Store:
    """The store of a run that nobody drives, so that its record is what the test writes."""
    desk.fleet("{seed: 1, speed: 20, run_s: inf}")
    desk.up("-d")
    until(lambda: desk.state() == "running", "running")
    for pid in desk.controllers():
        os.kill(pid, 9)
    return Store(desk.home)


class TestAsking:
    @pytest.mark.parametrize(
        "words",
        [
            ("drain", "r1-n1"),
            ("confirm-dead", "r1-n1"),
            ("relocate", "job/0"),
        ],
    )
    def test_without_a_terminal_and_a_yes_nothing_is_changed(self, running: Desk, words: tuple[str, ...]) -> None:
        done = running.run(*words)
        assert done.returncode == 2, done.stderr
        assert "cannot ask for confirmation without a terminal; nothing was changed" in done.stderr
        store = Store(running.home)
        assert store.ledger.drains("hall") == ()
        assert store.requests.after(store.find("job").id, 0) == ()

    def test_confirming_a_death_says_what_it_risks(self, running: Desk) -> None:
        done = running.run("confirm-dead", "r1-n1")
        assert "r1-n1: rank `main/0` of `job`" in done.stderr
        assert "two copies may write to the same checkpoint" in done.stderr
        assert "warning: ranks of `job` are running on r1-n1: no effect while its controller sees them" in done.stderr

    def test_the_machine_of_heads_may_be_dead_too(self, desk: Desk) -> None:
        desk.fleet("{seed: 1, speed: 20, run_s: inf}\nhead: {address: 10.9.9.9}")
        assert desk.up("-d").returncode == 0
        assert desk.run("confirm-dead", "head", "-y").returncode == 0
        store = Store(desk.home)
        assert [order.subject for order in store.requests.after(store.find("job").id, 0)] == ["head"]
        assert "`head` is not a node" in desk.run("drain", "head", "-y").stderr
        desk.run("down", "job", "-y")


class TestDrain:
    def test_a_drained_node_is_named_with_its_use_and_gets_no_new_work(self, running: Desk) -> None:
        done = running.run("drain", "r1-n[2-3]", "--reason", HOSTILE, "-i", "fleet.yaml", "-y")
        assert done.returncode == 0, done.stderr
        assert "r1-n2: rank `main/1` of `job`" in done.stderr
        assert "drained 2 nodes of `hall`: r1-n[2-3]" in done.stderr
        shown = running.run("racks", "-i", "fleet.yaml").stdout
        assert "\x1b" not in shown
        assert re.search(r"^r1 +A~x +0/3", shown, re.MULTILINE)
        (event,) = [
            one for one in json.loads(running.run("events", "job", "-o", "json").stdout) if one["kind"] == "requested"
        ]
        assert event["subject"] == "drain:r1-n2"
        assert "requested by " in event["message"]
        refused = running.up("-n", "other")
        assert refused.returncode == 3
        assert "drained" in refused.stderr
        assert running.run("undrain", "r1-n[2-3]", "-i", "fleet.yaml").stderr == "returned to service: r1-n[2-3]\n"
        assert running.run("undrain", "r1-n2", "-i", "fleet.yaml").stderr == "no such node was drained\n"

    def test_a_drained_node_that_its_run_has_left_is_not_drawn_in_use(self, running: Desk) -> None:
        running.run("down", "job", "-y")
        task = (running.folder / "task.yaml").read_text()
        (running.folder / "task.yaml").write_text(task.replace("slices: 2,", "slices: 1, spares: 1,"))
        assert running.up("-d").returncode == 0
        until(lambda: running.state() == "running", "running")
        taken = running.status()["ranks"][0]["node"]
        rack = taken.partition("-")[0]
        assert running.run("drain", taken, "-y").returncode == 0
        until(lambda: [one["node"] for one in running.status()["drained"]] == [taken], "drained in the status")
        row = rf"^{rack} +xAA +0/3"
        until(
            lambda: bool(re.search(row, running.run("racks", "-i", "fleet.yaml").stdout, re.MULTILINE)),
            "drained in the map",
        )
        assert re.search(rf"^main.s0 +{rack} +drained +{taken} *$", running.run("status", "job").stdout, re.MULTILINE)
        assert f"{taken} of `hall`: drained, kept for `job-" in running.run("nodes", taken).stdout

    def test_the_inventory_of_a_run_is_found_without_being_named(self, running: Desk) -> None:
        done = running.run("drain", "r2-n3", "-y")
        assert (done.returncode, "drained 1 node of `hall`" in done.stderr) == (0, True), done.stderr
        unknown = running.run("drain", "r9-n1", "-y")
        assert unknown.returncode == 2
        assert "no node or rack is named `r9-n1`" in unknown.stderr


class TestOrders:
    def test_each_order_reaches_the_run_with_who_gave_it(self, running: Desk) -> None:
        assert running.run("confirm-dead", "r1-n1", "-y").returncode == 0
        resumed = running.run("resume", "job")
        assert (resumed.returncode, "is not on hold" in resumed.stderr) == (0, True), resumed.stderr
        assert running.run("relocate", "job/1", "-y").returncode == 0
        store = Store(running.home)
        orders = store.requests.after(store.find("job").id, 0)
        assert [(order.seq, order.kind, order.subject) for order in orders] == [
            (1, RequestKind.CONFIRM_DEAD, "r1-n1"),
            (2, RequestKind.RESUME, ""),
            (3, RequestKind.RELOCATE, "main.s1"),
        ]
        assert all("@" in order.by for order in orders)
        assert store.requests.after(store.find("job").id, 2) == orders[2:]

    def test_a_slice_that_fits_nowhere_else_is_not_asked_to_move(self, running: Desk) -> None:
        assert running.run("drain", "r3", "-i", "fleet.yaml", "-y").returncode == 0
        done = running.run("relocate", "job/1", "-y")
        assert (done.returncode, done.stdout) == (3, "")
        assert "error: slice `main.s1` of `job` fits nowhere else\n" in done.stderr
        assert "r3" in done.stderr
        assert Store(running.home).requests.after(Store(running.home).find("job").id, 0) == ()

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("confirm-dead", "r1-n3", "-i", "fleet.yaml", "-y"), "no run uses r1-n3"),
            (("relocate", "job", "-y"), "`job` names no slice"),
            (("relocate", "job/7", "-y"), "`job` has no slice `7`"),
            (("resume", "nosuch"), "no run is named `nosuch`"),
            (("repair", "r1-n3", "-i", "fleet.yaml"), "`r1-n3` is not a machine"),
            (("watch",), "name one run to follow, or use `--all`"),
            (("watch", "job", "--all"), "name one run to follow, or use `--all`"),
        ],
    )
    def test_what_cannot_be_asked_is_refused(self, running: Desk, words: tuple[str, ...], said: str) -> None:
        done = running.run(*words)
        assert done.returncode == 2
        assert said in done.stderr


def failure(rank: str, code: int) -> ProgramFailure:
    ranks = {"ranks": 4, "alike": 1, "nodes": "r1-n[1-2],r2-n[1-2]"}
    return ProgramFailure(node=NodeName("r2-n1"), member=MemberName(rank), attempt=1, code=code, **ranks)  # type: ignore[arg-type]


class TestLedger:
    def test_a_failed_node_stays_out_until_it_is_readmitted(self, desk: Desk) -> None:
        store = idle(desk)
        run = store.find("job").id
        before = store.load(run)[1]
        evidence = Evidence(cause=Cause.NODE, message="GPU 2 fell off the bus", tail=("NVRM: Xid 79", HOSTILE))
        record = Record(
            receipts_seen=before.receipts_seen,
            slots=before.slots,
            gangs=before.gangs,
            failed_nodes={NodeName("r1-n1"): evidence},
            program_failures=[failure("main/1", 139), failure("main/1", 1), failure("main/1", 127)],
        )
        store.intend(run, record, (), "one node is failed", RunState.RECOVERING, time.time())
        store.finish(run, RunState.FAILED, time.time())
        table = desk.run("nodes").stdout
        assert re.search(r"^r1-n1 +hall +quarantined +1 +\d+s ago +GPU 2 fell off the bus$", table, re.MULTILINE)
        assert re.search(r"^r2-n1 +hall +in service +2 ", table, re.MULTILINE)
        assert len(desk.run("nodes", "-i", "fleet.yaml").stdout.splitlines()) == 3
        assert desk.run("nodes", "-i", "built-in").stderr == "no incidents, quarantines or drains\n"
        full = desk.run("nodes", "r1-n1").stdout
        assert "    | NVRM: Xid 79\n" in full
        assert "\x1b" not in full
        (one,) = json.loads(desk.run("nodes", "r1-n1", "-o", "json").stdout)
        assert (one["state"], one["incidents"][0]["evidence"][0]) == ("quarantined", "NVRM: Xid 79")
        assert store.ledger.suspects("hall", run) == {"r1-n1": "GPU 2 fell off the bus"}
        assert store.ledger.suspects("hall", RunId("another")) == {}
        assert desk.run("plan", "task.yaml", "-i", "fleet.yaml").returncode == 0
        assert desk.run("nodes", "readmit", "r1-n1", "-i", "fleet.yaml").returncode == 2
        done = desk.run("nodes", "readmit", "r1-n1", "-i", "fleet.yaml", "-y")
        assert done.returncode == 0, done.stderr
        assert "GPU 2 fell off the bus" in done.stderr
        assert store.ledger.quarantines("hall") == ()

    def test_a_run_that_gave_a_node_up_is_asked_to_take_it_back(self, desk: Desk) -> None:
        store = idle(desk)
        run = store.find("job").id
        evidence = Evidence(cause=Cause.PROVISION, message="setup failed")
        store.intend(run, Record(failed_nodes={NodeName("r1-n1"): evidence}), (), "on", RunState.RUNNING, time.time())
        assert desk.run("nodes", "readmit", "r1-n1", "-y").returncode == 0
        assert [order.kind for order in store.requests.after(run, 0)] == [RequestKind.READMIT]

    def test_nothing_known_is_said_and_is_an_empty_list(self, desk: Desk) -> None:
        assert desk.run("nodes").stderr == "no incidents, quarantines or drains\n"
        assert json.loads(desk.run("nodes", "-o", "json").stdout) == []


class TestReport:
    def test_it_holds_what_a_post_mortem_needs_and_no_secret(self, desk: Desk) -> None:
        task = TASK.replace("envs: {STEPS: 10}", "envs: {STEPS: 10, HF_TOKEN: hunter2-env}")
        (desk.folder / "task.yaml").write_text(task + "secrets: {KEY: null}\n")
        (desk.folder / "key").write_text("hunter2-secret\n")
        desk.fleet("{seed: 1, speed: 20, run_s: inf}")
        assert desk.up("-d", "--secret", "KEY=@key").returncode == 0
        until(lambda: desk.state() == "running", "running")
        (desk.home / "runs").glob("*/controller.log")
        with next(desk.home.glob("runs/*/controller.log")).open("a") as log:
            log.write("a careless line: hunter2-secret\n")
        done = desk.run("report", "job", "-o", "job.tar.gz")
        assert done.returncode == 0, done.stderr
        assert (desk.folder / "job.tar.gz").stat().st_mode & 0o777 == 0o600
        held = files_of(desk.folder / "job.tar.gz")
        assert {
            "about.json",
            "status.json",
            "task.json",
            "record.json",
            "events.jsonl",
            "nodes.json",
            "decisions.jsonl",
            "controller.log",
            "logs/main/3.log",
            "logs/provision/r1-n2.log",
        } <= held.keys()
        assert [name for name, data in held.items() if b"hunter2" in data] == []
        user = User.current()
        about = json.loads(held["about.json"])
        assert (about["user"], about["submit_host"]) == (user.name, user.host)
        assert b"a careless line: <hidden>" in held["controller.log"]
        assert json.loads(held["task.json"])["groups"][0]["envs"] == {"STEPS": "10", "HF_TOKEN": "<hidden>"}
        again = desk.run("report", "job", "-o", "job.tar.gz")
        assert again.returncode == 2
        assert "already exists" in again.stderr
        desk.run("down", "job", "-y")

    def test_its_decisions_come_out_the_same_and_another_is_shown(self, desk: Desk) -> None:
        assert desk.up().returncode == 0
        live = desk.run("replay", "job")
        assert (live.returncode, live.stdout) == (0, live.stdout), live.stderr
        assert re.fullmatch(r"\d+ decisions, all the same\n", live.stdout)
        assert desk.run("report", "job").returncode == 0
        assert desk.run("replay", "job-report.tar.gz").stdout == live.stdout
        half = desk.folder / "half.tar.gz"
        half.write_bytes((desk.folder / "job-report.tar.gz").read_bytes()[:-1500])
        torn = desk.run("replay", "half.tar.gz")
        assert (torn.returncode, "cannot read `half.tar.gz`" in torn.stderr) == (2, True), torn.stderr
        with tarfile.open(desk.folder / "job-report.tar.gz") as archive:
            entry = next(one for one in archive if one.name.endswith("decisions.jsonl"))
            file = archive.extractfile(entry)
            assert file is not None
            text = file.read().decode()
        (desk.folder / "decisions.jsonl").write_text(
            text.replace('"reason":{"why":"start"', '"reason":{"why":"replace"', 1)
        )
        other = desk.run("replay", "decisions.jsonl")
        assert other.returncode == 1
        assert re.match(r"decision \d+, at [\d.]+ s: ", other.stdout)
        (desk.folder / "decisions.jsonl").write_text("{}\n")
        assert desk.run("replay", "decisions.jsonl").returncode == 2

    def test_passwords_that_nobody_called_secret_are_not_in_it_and_it_can_be_replayed(self, desk: Desk) -> None:
        envs = (
            "envs: {STEPS: 10, TOKENIZERS_PARALLELISM: 'false', HF_TOKEN: 'false', OPENAI_APIKEY: sk-hunter2-key, "
            "DATABASE_URL: 'postgres://me:hunter2@host/db'}"
        )
        task = TASK.replace("envs: {STEPS: 10}", envs).replace("run: ", "run: WANDB_API_KEY=hunter2 ")
        (desk.folder / "task.yaml").write_text(task + "secrets: {A: null, B: null, C: null}\n")
        desk.fleet("{seed: 1}\nfence_command: ipmitool -H {address} -P hunter2 power off")
        desk.env.update(A="running", B="main", C="start")  # as bad as secrets can be
        assert desk.up("--secret", "A", "--secret", "B", "--secret", "C").returncode == 0
        live = desk.run("replay", "job")
        assert desk.run("report", "job").returncode == 0
        held = files_of(desk.folder / "job-report.tar.gz")
        assert [name for name, data in held.items() if b"hunter2" in data] == []
        assert json.loads(held["run.json"])["fleet"]["fence_command"] == "<hidden>"
        assert json.loads(held["task.json"])["groups"][0]["envs"] == {
            "STEPS": "10",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_TOKEN": "<hidden>",
            "OPENAI_APIKEY": "<hidden>",
            "DATABASE_URL": "postgres://<hidden>@host/db",
        }
        for name, data in held.items():
            for text in [data] if name.endswith(".json") else data.splitlines() if name.endswith(".jsonl") else ():
                json.loads(text)
        again = desk.run("replay", "job-report.tar.gz")
        assert (again.returncode, again.stdout) == (0, live.stdout), again.stdout + again.stderr

    def test_a_damaged_decision_is_named_and_all_others_are_there(self, desk: Desk) -> None:
        assert desk.up().returncode == 0
        whole = int(desk.run("replay", "job").stdout.split()[0])
        with sqlite3.connect(desk.home / "state.db") as db:
            db.execute("UPDATE decisions SET decision = x'00' WHERE seq = 2")
            db.execute("UPDATE runs SET snapshot = '{' WHERE name = 'job'")
        db.close()
        done = desk.run("report", "job")
        assert done.returncode == 0, done.stderr
        assert "missing in the report: " in done.stderr
        held = files_of(desk.folder / "job-report.tar.gz")
        assert re.fullmatch(r"status\.json: .+\ndecisions\.jsonl: decision 2: .+\n", held["unread.txt"].decode())
        assert {"run.json", "record.json", "events.jsonl", "controller.log"} <= held.keys()
        assert desk.run("replay", "job-report.tar.gz").stdout == f"{whole - 1} decisions, all the same\n"
        live = desk.run("replay", "job")
        assert live.returncode not in (0, 70)
        assert "decision 2 of `" in live.stderr

    def test_what_is_no_report_is_called_so(self, desk: Desk) -> None:
        (desk.folder / "bytes").write_bytes(b"\xff\xfe\x00")
        with tarfile.open(desk.folder / "other.tar", "w") as archive:
            archive.add(desk.folder / "task.yaml", "task.yaml")
        for name in ("fleet.yaml", "bytes", "other.tar"):
            done = desk.run("replay", name)
            assert (done.returncode, f"`{name}` is neither a report nor a file of decisions" in done.stderr) == (
                2,
                True,
            ), done.stderr


def test_the_unit_runs_this_command_for_this_home(desk: Desk, tmp_path: Path) -> None:
    home = tmp_path / "my %home"
    done = subprocess.run(
        [sys.executable, "-m", "launcher.cli", "service", "--metrics-port", "9466"],
        env={**desk.env, "NVLAUNCH_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "@" not in re.sub(r"#.*", "", done.stdout)
    assert re.search(r"^ExecStart=/\S+ watch --all --metrics-port 9466$", done.stdout, re.MULTILINE)
    assert f'Environment="NVLAUNCH_HOME={tmp_path}/my %%home"\n' in done.stdout
    assert "\nWantedBy=default.target" in done.stdout


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd to ask")
@pytest.mark.parametrize("whose", ["--user", "--system"])
def test_systemd_has_nothing_against_the_unit(desk: Desk, tmp_path: Path, whose: str) -> None:
    home, path = tmp_path / 'my "%h$HOME', f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "launcher.cli", "service", *(["--system"] if whose == "--system" else [])],
        env={**desk.env, "NVLAUNCH_HOME": str(home), "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    unit = tmp_path / "nvlaunch.service"
    unit.write_text(done.stdout)
    checked = subprocess.run(
        ["systemd-analyze", "verify", whose, "--man=no", unit],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (checked.returncode, checked.stderr) == (0, "")
