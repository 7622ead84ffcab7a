"""The script that runs on nodes, run on this machine."""

import ast
import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import launcher
from launcher.core.model.container import Engine
from launcher.core.model.inventory import Access, GpuDriver, Node, RackName
from launcher.core.model.nodeset import NodeName
from launcher.probe import imex, system
from launcher.probe.check_node import GPU_FACTS, check_node
from launcher.probe.containers import (
    INFO_COMMANDS,
    ContainerHost,
    EngineInfo,
    info_probe,
    read_container_host,
    read_infos,
)
from launcher.probe.findings import CheckResult, Fact
from launcher.probe.folders import FolderTrial, LeasePlace, read_lease_place, read_trial
from launcher.probe.limits import Limits, read_limits
from launcher.probe.node_facts import NO_PYTHON, Facts, builtin, call, parse_facts, read_facts
from launcher.probe.nvidia import xid
from launcher.probe.nvidia.nvidia_smi import Driver
from launcher.probe.results import MARK, ProbeResult, Unknown, read_results
from launcher.probe.slurm import SlurmNode, read_slurm

SCRIPT = Path(launcher.__file__).parent / "runtime" / "facts.py"
CORPUS = Path(__file__).parents[2] / "corpus" / "probe"
SHORT = 0.5


def node(driver: GpuDriver = GpuDriver.NVIDIA) -> Node:
    access = Access(address="127.0.0.1", python=sys.executable)
    return Node(name=NodeName("here"), rack=RackName("r1"), access=access, gpus=1, gpu_driver=driver)


def ask(probes: Mapping[str, object], path: Path | None = None) -> Mapping[str, ProbeResult]:
    """Run the script as a node would."""
    env = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"} if path else None
    asked = json.dumps({"probes": probes}).encode()
    done = subprocess.run([sys.executable, SCRIPT], input=asked, capture_output=True, timeout=60, env=env)
    answers = read_results(done.stdout)
    assert not isinstance(answers, Unknown), done.stderr
    return answers


def shell(script: str, **limits: object) -> Mapping[str, object]:
    return {"argv": ["sh", "-c", script], **limits}


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder that comes first on the PATH."""
    folder = tmp_path / "tools"
    folder.mkdir()
    return folder


def tool(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_script_is_valid_for_python_3_6() -> None:
    ast.parse(SCRIPT.read_text(), feature_version=(3, 6))


def test_all_facts_of_this_machine_in_one_call() -> None:
    cpu = node(GpuDriver.NONE)
    asked = call(SCRIPT.read_bytes(), cpu)
    done = subprocess.run(asked.argv, input=asked.stdin, capture_output=True, timeout=asked.timeout)
    parse_facts = read_facts(done.stdout, cpu, now=time.time())
    assert isinstance(parse_facts, Facts), done.stderr
    findings = {finding.fact: finding for finding in check_node(parse_facts, cpu)}
    assert {findings[fact].result for fact in GPU_FACTS} == {CheckResult.NOT_APPLICABLE}
    for fact in (Fact.HOST, Fact.CLOCK, Fact.PYTHON, Fact.RAY):
        assert findings[fact].result is CheckResult.GOOD, findings[fact]
    assert os.uname().nodename in findings[Fact.HOST].message


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has the tool")
def test_gpu_facts_are_unknown_without_nvidia_smi() -> None:
    gpu = node()
    asked = call(SCRIPT.read_bytes(), gpu)
    done = subprocess.run(asked.argv, input=asked.stdin, capture_output=True, timeout=asked.timeout)
    parse_facts = read_facts(done.stdout, gpu, now=time.time())
    answers = {finding.fact: finding.result for finding in check_node(parse_facts, gpu)}
    assert {answers[fact] for fact in (Fact.DRIVER, Fact.GPUS, Fact.FABRIC, Fact.DOMAIN)} == {CheckResult.CANNOT_TELL}


def test_tools_on_the_path_are_run(tools: Path) -> None:
    for name, kind, case in (
        ("nvidia-smi", "nvidia_smi", "580-recovery-due"),
        ("nvidia-imex-ctl", "imex_domain", "up"),
        ("journalctl", "xids", "each-class"),
    ):
        tool(tools, name, f"cat {CORPUS / kind / case}.out")
    tool(tools, "date", "echo 1790000000.5")
    gpu = node()
    asked = call(SCRIPT.read_bytes(), gpu)
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    done = subprocess.run(asked.argv, input=asked.stdin, capture_output=True, timeout=asked.timeout, env=env)
    parse_facts = read_facts(done.stdout, gpu, now=1_790_003_600.0)
    assert isinstance(parse_facts, Facts)
    assert isinstance(parse_facts.driver, Driver)
    assert [one.action for one in parse_facts.driver.gpus] == [None, "Drain and Reset"]
    assert isinstance(parse_facts.imex_domain, imex.ImexDomain)
    assert not isinstance(parse_facts.xids, Unknown)
    assert [one.code for one in parse_facts.xids][:3] == [13, 31, 45]
    clock = next(finding for finding in check_node(parse_facts, gpu) if finding.fact is Fact.CLOCK)
    assert (clock.result, clock.stops) == (CheckResult.BAD, True)


def test_tool_that_hangs_is_killed_with_its_children_and_delays_no_other(tools: Path, tmp_path: Path) -> None:
    tool(
        tools, "nvidia-smi", f"trap '' TERM; sleep 60 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/self; sleep 60"
    )
    began = time.monotonic()
    answers = ask({"slow": {"argv": ["nvidia-smi", "-q"], "timeout": SHORT}, "quick": shell("echo hello")}, tools)
    assert time.monotonic() - began < 20
    assert answers["slow"].timed_out
    assert answers["slow"].rc == -signal.SIGKILL
    assert answers["quick"].out == "hello\n"
    assert gone(int((tmp_path / "child").read_text()))
    assert gone(int((tmp_path / "self").read_text()))


def test_long_output_is_read_and_cut(tools: Path) -> None:
    tool(tools, "nvidia-smi", "echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last")
    ran = ask({"flood": {"argv": ["nvidia-smi"], "timeout": 50.0, "limit": 2000}}, tools)["flood"]
    assert ran.rc == 0
    assert len(ran.out) == 2000
    assert ran.dropped > 99_000_000
    assert ran.out.startswith("first\nx")
    assert ran.out.endswith("x\nlast\n")


def test_daemon_that_keeps_the_pipe_open_is_not_waited_for(tmp_path: Path) -> None:
    escape = (
        f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60' & until [ -s {tmp_path}/pid ]; do :; done; echo done"
    )
    began = time.monotonic()
    ran = ask({"daemon": shell(escape, timeout=30.0)})["daemon"]
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert time.monotonic() - began < 25
    assert (ran.rc, ran.out, ran.timed_out) == (0, "done\n", False)


def test_only_matching_lines_of_a_log_are_sent() -> None:
    script = "echo '-- Journal begins --'; seq 1 100000; echo 'NVRM: Xid'; printf 'NVRM: last'"
    ran = ask({"log": shell(script, keep=list(xid.KEEP))})["log"]
    assert ran.out == "NVRM: Xid\nNVRM: last\n"
    assert ran.lines == 100_002


def test_failing_function_is_reported_and_the_others_answer() -> None:
    answers = ask(
        {"wrong": {"builtin": "space", "args": []}, "none": {"argv": ["/no/such/tool"]}, "right": shell("true")}
    )
    assert answers["wrong"].rc == 70
    assert "space() missing" in answers["wrong"].err
    assert answers["none"].rc == 127
    assert answers["right"].rc == 0


def test_program_that_cannot_be_executed_is_not_missing(tools: Path) -> None:
    (tools / "python").write_bytes(b"\x7fELF of another machine")
    (tools / "python").chmod(0o755)
    found = system.read_python(ask({"python": {"argv": [str(tools / "python")]}})["python"], "python")
    assert isinstance(found, Unknown)
    assert (found.missing, found.failed) == (False, True)
    assert "Exec format error" in found.why


def test_space_of_a_missing_path_is_that_of_its_parent(tmp_path: Path) -> None:
    ran = ask({"room": {"builtin": "space", "args": [f"{tmp_path}/not/yet"]}})["room"]
    found = json.loads(ran.out)
    assert found["at"] == str(tmp_path)
    assert found["bytes"] == shutil.disk_usage(tmp_path).total
    assert found["writable"] is True


def trial(path: object, *wants: str) -> FolderTrial:
    name = f"trial of {path}"
    found = read_trial(ask({name: {"builtin": "trial", "args": [str(path), *wants]}})[name], str(path))
    assert isinstance(found, FolderTrial), found
    return found


def failures(found: FolderTrial) -> list[tuple[str, str]]:
    return [(failed.step, failed.errno) for failed in found.failed]


ALL = ("execute", "socket")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount, and become another user")


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """A file system in memory of its own for `FOLDER`, with these options."""
    made: list[Path] = []

    def mount(folder: Path, options: str) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "nvlaunch-test", str(folder)], check=True)
        made.append(folder)
        return folder

    yield mount
    for folder in made:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_good_folder_passes_every_trial_and_is_left_as_it_was(tmp_path: Path) -> None:
    assert failures(trial(tmp_path / "not" / "yet", *ALL)) == []
    assert trial(tmp_path / "not" / "yet").at == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_trials_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    asked = {str(at): {"builtin": "trial", "args": [str(tmp_path), *ALL]} for at in range(40)}
    assert [failures_of for found in ask(asked).values() if (failures_of := json.loads(found.out)["failed"])] == []
    assert list(tmp_path.iterdir()) == []


def test_a_trial_takes_milliseconds_and_its_answer_is_bounded(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 200) / ("e" * 200) / ("f" * 200)
    deep.mkdir(parents=True)
    ran = ask({"deep": {"builtin": "trial", "args": [str(deep), *ALL]}})["deep"]
    assert ran.elapsed < 3
    assert len(ran.out) < 4096


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short path: sockets have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="nv") as folder:
        yield Path(folder)


@as_root
@pytest.mark.parametrize(
    ("options", "spoil", "expected"),
    [
        ("size=1M", "head -c 1M /dev/zero > {0}/filler || true", [("write a file", "ENOSPC")]),
        ("nr_inodes=4", "touch {0}/1 {0}/2 {0}/3", [("create a file", "ENOSPC")]),
        ("size=1M", "mount -o remount,ro {0}", [("create a file", "EROFS")]),
        ("size=1M,noexec", "true", [("execute", "EACCES")]),
        # A file where a folder must be, and a link to what is gone.
        ("size=1M", "touch {0}/.nvlaunch", [("create a file", "ENOTDIR")]),
        ("size=1M", "ln -s /gone {0}/.nvlaunch", [("create a file", "ENOENT")]),
    ],
    ids=["full", "out-of-inodes", "read-only", "noexec", "a-file", "dangling"],
)
def test_a_spoilt_folder_is_named_with_the_step_and_the_errno(
    short: Path, mounted: Callable[..., Path], options: str, spoil: str, expected: list[tuple[str, str]]
) -> None:
    home = mounted(short / "home", options)
    subprocess.run(["sh", "-c", spoil.format(home)], check=True, stderr=subprocess.DEVNULL)
    before = sorted(home.iterdir())
    found = trial(home / ".nvlaunch" / "runs", *ALL)
    assert failures(found) == expected
    assert found.mount == (str(home) if expected[0][1] != "ENOENT" else "/")
    assert found.kind == "tmpfs" or found.mount == "/"
    assert sorted(home.iterdir()) == before


@as_root
def test_a_folder_of_root_is_closed_to_a_user(tmp_path: Path) -> None:
    for folder in (*tmp_path.parents, tmp_path):
        folder.chmod(folder.stat().st_mode | 0o055)
    (tmp_path / ".nvlaunch").mkdir(mode=0o755)
    asked = json.dumps({"probes": {"it": {"builtin": "trial", "args": [f"{tmp_path}/.nvlaunch/runs"]}}}).encode()
    script = SCRIPT.read_text()
    done = subprocess.run(
        [shutil.which("python3", path="/usr/bin") or sys.executable, "-c", script],
        input=asked, capture_output=True, user=65534, group=65534, extra_groups=[], cwd="/",
    )  # fmt: skip
    answers = read_results(done.stdout)
    assert not isinstance(answers, Unknown), done.stderr
    assert json.loads(answers["it"].out)["failed"] == [
        {"step": "create a file", "errno": "EACCES", "message": "Permission denied"}
    ]


def lease_place(*paths: object) -> LeasePlace:
    found = read_lease_place(ask({"it": {"builtin": "lease_place", "args": list(map(str, paths))}})["it"])
    assert isinstance(found, LeasePlace)
    return found


def test_a_lease_is_opened_where_it_is_and_made_nowhere(tmp_path: Path) -> None:
    assert lease_place(tmp_path / "lease").usable == str(tmp_path / "lease")
    (tmp_path / "lease").write_text("run `a`")
    assert lease_place(tmp_path / "lease").usable == str(tmp_path / "lease")
    assert list(tmp_path.iterdir()) == [tmp_path / "lease"]
    fallback = lease_place(tmp_path / "gone" / "lease", tmp_path / "other")
    assert fallback.usable == str(tmp_path / "other")
    assert [(failed.errno, failed.path) for failed in fallback.failed] == [("ENOENT", str(tmp_path / "gone" / "lease"))]


@as_root
def test_a_full_folder_has_no_room_for_a_lease(mounted: Callable[..., Path], tmp_path: Path) -> None:
    lock = mounted(tmp_path / "lock", "size=64k")
    (lock / "nvlaunch").touch()
    subprocess.run(["sh", "-c", f"head -c 64k /dev/zero > {lock}/filler"], check=False, stderr=subprocess.DEVNULL)
    found = lease_place(lock / "nvlaunch", tmp_path / "other")
    assert (found.usable, [failed.errno for failed in found.failed]) == (None, ["ENOSPC"])


def test_slurm_is_seen_by_its_daemon_and_the_steps_of_its_jobs(tmp_path: Path) -> None:
    for name in ("slurmd", "slurmstepd"):
        shutil.copy("/bin/sleep", tmp_path / name)
    running = [
        subprocess.Popen(["slurmd", "60"], executable=tmp_path / "slurmd"),
        subprocess.Popen(["slurmstepd: [417.0]", "60"], executable=tmp_path / "slurmstepd"),
    ]
    try:
        found = read_slurm(ask({"it": {"builtin": "slurm"}})["it"])
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert isinstance(found, SlurmNode)
    assert found.daemon
    assert found.jobs["417"] == ""
    assert found.adopted is None


def login_by(argv: list[str]) -> Limits:
    """The limits that the script sees where this command runs it."""
    asked = json.dumps({"probes": {"it": {"builtin": "limits"}}}).encode()
    done = subprocess.run(argv, input=asked, capture_output=True, timeout=60)
    answers = read_results(done.stdout)
    assert not isinstance(answers, Unknown), done.stderr
    found = read_limits(answers["it"])
    assert isinstance(found, Limits), found
    return found


def test_limits_of_a_login_are_read_with_how_many_threads_it_has() -> None:
    found = login_by(["bash", "-c", f"ulimit -n 500; ulimit -l 64; ulimit -u 4000; exec {sys.executable} {SCRIPT}"])
    assert (found.open_files.hard, found.locked_memory.hard, found.processes.hard) == (500, 64 * 1024, 4000)
    assert found.threads > 0
    assert found.cores == len(os.sched_getaffinity(0))
    assert found.root is (os.geteuid() == 0)


def test_a_limit_of_the_ssh_server_is_told_from_one_that_a_login_sets(tmp_path: Path) -> None:
    shutil.copy("/bin/bash", tmp_path / "sshd")
    server = f"exec -a sshd {tmp_path}/sshd -c 'ulimit -n 700; ulimit -l 64; {sys.executable} {SCRIPT}; true'"
    found = login_by(["bash", "-c", server])
    assert (found.open_files.hard, found.open_files.source) == (700, "sshd")
    assert (found.locked_memory.hard, found.locked_memory.source) == (64 * 1024, "sshd")
    inner = tmp_path / "login"
    inner.write_text(f"ulimit -n 600; exec {sys.executable} {SCRIPT}\n")
    lowered = login_by(["bash", "-c", f"exec -a sshd {tmp_path}/sshd -c 'ulimit -n 700; bash {inner}; true'"])
    assert (lowered.open_files.hard, lowered.open_files.source) == (600, "")


@as_root
def test_the_rule_of_pam_that_set_a_limit_is_named(tmp_path: Path) -> None:
    (tmp_path / "limits.d").mkdir()
    (tmp_path / "limits.conf").write_text("# * hard nofile 500\n* soft nofile 500\n@nosuch hard nofile 500\n")
    (tmp_path / "limits.d" / "20.conf").write_text("* - nproc 9\nroot hard nofile 500\n* hard memlock 64 # KiB\n")
    script = f"mount --bind {tmp_path} /etc/security && ulimit -n 500 && ulimit -l 64 && exec {sys.executable} {SCRIPT}"
    found = login_by(["unshare", "-m", "bash", "-c", script])
    assert found.open_files.source == "/etc/security/limits.d/20.conf:2"
    assert found.locked_memory.source == "/etc/security/limits.d/20.conf:3"
    assert found.processes.source == ""


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group that limits processes."""
    top = next(path for path in (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")) if path.is_dir())
    made = top / f"nvlaunch-test-{os.getpid()}"
    try:
        made.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    if not (made / "pids.max").exists():
        made.rmdir()
        pytest.skip("control groups here do not limit processes")
    yield made
    made.rmdir()


def test_the_limit_of_a_control_group_is_read_with_its_processes(group: Path) -> None:
    (group / "pids.max").write_text("150")
    found = login_by(["bash", "-c", f"echo $$ > {group}/cgroup.procs; exec {sys.executable} {SCRIPT}"])
    (limit,) = (one for one in found.groups if one.name == f"/{group.name}")
    assert limit.limit == 150
    assert 0 < limit.used < 10
    assert found.room is not None
    assert found.room[0] <= 150 - limit.used


@as_root
def test_where_no_process_can_start_the_rest_still_answers() -> None:
    python = shutil.which("python3", path="/usr/bin") or sys.executable
    asked = json.dumps({"probes": {"one": shell("true"), "two": {"builtin": "limits"}}}).encode()
    argv = [python, "-c", SCRIPT.read_text()]
    done = subprocess.run(
        argv, input=asked, capture_output=True, cwd="/", timeout=60, preexec_fn=_become_a_user_of_one_process
    )
    answers = read_results(done.stdout)
    assert not isinstance(answers, Unknown), done.stderr
    found = read_limits(answers["two"])
    assert isinstance(found, Unknown)
    assert "cannot start a process: Resource temporarily unavailable" in found.why


def _become_a_user_of_one_process() -> None:
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    os.setgroups([])
    os.setgid(65533)
    os.setuid(65533)


def test_port_with_a_listener_is_in_use() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        assert listener.getsockname()[1] in json.loads(ask({"ports": {"builtin": "ports"}})["ports"].out)


@pytest.fixture
def marked() -> Iterator[tuple[int, int]]:
    """A process with a mark, and its child that has cleared its environment."""
    env = {**os.environ, "NVLAUNCH_MARK": "x-probe:here:0"}
    script = "env -i sleep 60 & echo $!; wait"
    with subprocess.Popen(["sh", "-c", script], env=env, stdout=subprocess.PIPE, start_new_session=True) as parent:
        assert parent.stdout is not None
        yield parent.pid, int(parent.stdout.readline())
        os.killpg(parent.pid, signal.SIGKILL)


def test_leftover_process_is_found_by_its_mark_or_its_parent(marked: tuple[int, int]) -> None:
    listed = json.loads(ask({"who": {"builtin": "processes"}})["who"].out)
    found = {one["pid"]: one["mark"] for one in listed}
    assert {pid: found.get(pid) for pid in marked} == dict.fromkeys(marked, "x-probe:here:0")


def test_script_does_not_report_itself() -> None:
    env = {**os.environ, "NVLAUNCH_MARK": "x-asks:here:0"}
    asked = json.dumps({"probes": {"who": {"builtin": "processes"}, "other": shell("sleep 1; true")}}).encode()
    done = subprocess.run([sys.executable, SCRIPT], input=asked, capture_output=True, timeout=60, env=env)
    answers = read_results(done.stdout)
    assert not isinstance(answers, Unknown)
    assert "x-asks" not in answers["who"].out


def test_infiniband_ports_are_read_from_sysfs(tmp_path: Path) -> None:
    port = tmp_path / "mlx5_0" / "ports" / "1"
    port.mkdir(parents=True)
    for name, value in (("state", "4: ACTIVE"), ("phys_state", "5: LinkUp"), ("rate", "400 Gb/sec (4X NDR)")):
        (port / name).write_text(value + "\n")
    ran = ask({"ib": {"builtin": "infiniband", "args": [str(tmp_path)]}})["ib"]
    assert json.loads(ran.out) == [
        {
            "device": "mlx5_0",
            "port": "1",
            "state": "4: ACTIVE",
            "phys_state": "5: LinkUp",
            "rate": "400 Gb/sec (4X NDR)",
        }
    ]


def test_imex_node_list_and_its_hash(tmp_path: Path) -> None:
    (tmp_path / "nodes_config.cfg").write_text("10.0.7.1\n10.0.7.2\n")
    args = [str(tmp_path), str(tmp_path / "channel0")]
    found = imex.read_files(ask({"files": {"builtin": "imex_files", "args": args}})["files"])
    assert isinstance(found, imex.ImexFiles)
    assert found.nodes == ("10.0.7.1", "10.0.7.2")
    assert found.nodes_hash is not None
    assert (found.config_hash, found.channel) == (None, False)


@pytest.mark.parametrize(
    ("given", "status"), [(sys.executable, 0), ("/nosuch/python", NO_PYTHON)], ids=["given", "none"]
)
def test_configured_python_is_used_if_the_system_has_none(given: str, status: int, tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to("/bin/sh")
    asked = call(SCRIPT.read_bytes(), replace(node(GpuDriver.NONE), access=Access(address="here", python=given)))
    path = {"PATH": str(tmp_path)}
    done = subprocess.run(asked.argv, input=asked.stdin, capture_output=True, timeout=asked.timeout, env=path)
    assert done.returncode == status, done.stderr
    assert (MARK in done.stdout) is (status == 0)


@pytest.mark.parametrize(
    ("said", "asked", "expected"),
    [
        ("1001.0", 1000.0, 0.0),  # it may all have been on the way
        ("998.0", 1000.0, -2.5),  # that long before we asked
        ("1007.0", 1000.0, 3.0),  # that long after we had the answer
        ("1002.0", None, -2.0),
    ],
)
def test_time_on_the_way_is_not_counted_as_clock_skew(said: str, asked: float | None, expected: float) -> None:
    ran = ProbeResult(rc=0, out=said, elapsed=0.5, age=0.5)
    found = parse_facts({"date": ran}, node(), now=1004.5, asked=asked)
    assert found.clock == pytest.approx(expected)


def test_of_logins_to_registries_only_names_leave_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "ENROOT_CONFIG_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    files = {
        ".docker/config.json": {
            "auths": {"https://index.docker.io/v1/": {"auth": "HUSH"}, "nvcr.io": {}},
            "credHelpers": {"ecr.site": "ecr-login"},
        },
        "run/containers/auth.json": {"auths": {"quay.io/team": {"auth": "HUSH"}}},
        ".apptainer/docker-config.json": ["HUSH"],
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / ".config/enroot").mkdir(parents=True)
    (tmp_path / ".config/enroot/.credentials").write_text("machine auth.site login HUSH password HUSH\n")
    told = ask({"host": builtin("container_host")})["host"]
    assert "HUSH" not in told.out + told.err
    found = read_container_host(told)
    assert isinstance(found, ContainerHost)
    assert found.logins == ("auth.site", "ecr.site", "index.docker.io", "nvcr.io", "quay.io")


def test_the_room_of_an_engine_is_that_of_the_folder_that_it_names(tools: Path, tmp_path: Path) -> None:
    docker = Engine.DOCKER

    def told(root: object) -> EngineInfo | Unknown:
        tool(tools, "docker", f"#!/bin/sh\necho '{json.dumps({'ServerVersion': '28.1', 'DockerRootDir': root})}'\n")
        name = info_probe(docker)
        return read_infos(ask({name: builtin("engine_info", *INFO_COMMANDS[docker])}, tools))[docker]

    here = told(str(tmp_path))
    assert isinstance(here, EngineInfo)
    assert here.space is not None
    assert (here.version, here.space.at, here.space.free > 0) == ("28.1", str(tmp_path), True)
    elsewhere = told("/not/here")
    assert isinstance(elsewhere, EngineInfo)
    assert elsewhere.space is None
    tool(tools, "docker", "#!/bin/sh\necho trouble >&2; exit 1\n")
    failed = read_infos(ask({info_probe(docker): builtin("engine_info", "docker")}, tools))[docker]
    assert isinstance(failed, Unknown)
    assert "trouble" in failed.why
