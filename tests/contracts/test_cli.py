"""What holds for every command: help with an example, `-o json` where it reads, exit codes that are told apart."""

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from launcher.cli.main import app
from launcher.errors import ExitCode, LaunchError

ROOT = Path(__file__).parents[2]
COMMANDS = typer.main.get_command(app).commands
READING = ("plan", "status", "queue", "events", "racks", "doctor", "check", "validate", "nodes", "size", "simulate")
# Bytes of programs, and JSON by nature.
RAW = ("logs", "schema", "exec", "service", "replay")
ACTING = (
    *("up", "watch", "down", "init", "ssh", "sync-down", "hosts", "inventory"),
    *("drain", "undrain", "confirm-dead", "resume", "relocate", "repair", "report", "defrag"),
)


def run(*words: str, home: Path, stdin: str = "", **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "launcher.cli", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NVLAUNCH_HOME": str(home), **env},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_new_command_says_what_kind_it_is() -> None:
    assert set(COMMANDS) == {*READING, *RAW, *ACTING}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_and_shows_how(name: str) -> None:
    told = inspect.cleandoc(COMMANDS[name].help or "")
    assert re.match(r"[A-Z][^\n]{10,60}\.\n", told + "\n"), (
        "the first line is a short sentence, for the list of commands"
    )
    assert f"Example:\n  nvlaunch {name}" in told


@pytest.mark.parametrize("name", COMMANDS)
def test_every_parameter_is_explained(name: str) -> None:
    bare = [param.name for param in COMMANDS[name].params if not getattr(param, "help", None)]
    assert bare == []


@pytest.mark.parametrize("name", READING)
def test_reading_commands_write_json(name: str) -> None:
    assert any("-o" in param.opts for param in COMMANDS[name].params)


def test_help_is_plain_and_fits_a_narrow_terminal(tmp_path: Path) -> None:
    for name in ("", *COMMANDS):
        words = (name, "--help") if name else ("--help",)
        done = run(*words, home=tmp_path, NO_COLOR="1", COLUMNS="60", FORCE_COLOR="1", GITHUB_ACTIONS="1")
        assert done.returncode == 0
        assert "\x1b" not in done.stdout
        examples = [line for line in done.stdout.splitlines() if line.startswith("    nvlaunch ")]
        long = [line for line in done.stdout.splitlines() if len(line) > 60 and line not in examples]
        assert long == []


def test_json_is_all_that_stdout_holds(tmp_path: Path) -> None:
    task, fleet = str(ROOT / "examples" / "vla-8x64.yaml"), str(ROOT / "examples" / "fleet-9xnvl72.yaml")
    for words in (("status",), ("racks", "-i", fleet), ("plan", task, "-i", fleet), ("validate", task, fleet)):
        done = run(*words, "-o", "json", home=tmp_path)
        assert done.returncode == 0, done.stderr
        json.loads(done.stdout)


@pytest.mark.parametrize("words", [("validate",), ("plan", "-i", "built-in")], ids=["validate", "plan"])
def test_a_task_may_come_through_a_pipe(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run(*words, "/dev/stdin", home=tmp_path, stdin="name: piped\nrun: echo\n")
    assert done.returncode == 0, done.stderr


def test_each_error_has_one_exit_code_and_each_code_one_meaning() -> None:
    def family(kind: type[LaunchError]) -> set[type[LaunchError]]:
        return {kind}.union(*(family(child) for child in kind.__subclasses__()))

    assert {kind.code for kind in family(LaunchError)} <= set(ExitCode)
    assert len({code.value for code in ExitCode}) == len(ExitCode)


def test_no_module_is_needed_to_start_that_only_some_commands_need(tmp_path: Path) -> None:
    heavy = (
        "pydantic",
        "paramiko",
        "ray",
        "yaml",
        "tenacity",
        "rich",
        "launcher.core.model.run",
        "launcher.core.planner",
    )
    program = (
        "import sys; from launcher.cli.main import main; main(sys.argv[2:]); "
        "print([name for name in sys.argv[1].split() if name in sys.modules], file=sys.stderr)"
    )
    for words in (("status",), ("status", "-o", "json"), ("--help",)):
        done = subprocess.run(
            [sys.executable, "-c", program, " ".join(heavy), *words],
            env={**os.environ, "PYTHONPATH": str(ROOT), "NVLAUNCH_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stderr.splitlines()[-1] == "[]", words


def test_an_interrupt_while_modules_are_still_read_says_nothing() -> None:
    program = """
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "launcher.cli.commands.runs.plan":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from launcher.cli.entry import main
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (ExitCode.INTERRUPTED, "")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_goes_away_is_no_error(tmp_path: Path, stream: str) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "launcher.cli", "racks", "-o", "json"],
            env={**os.environ, "PYTHONPATH": str(ROOT), "NVLAUNCH_HOME": str(tmp_path)},
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: write},
            timeout=60,
        )
    finally:
        os.close(write)
    assert done.returncode == 0
    assert not done.stderr


@pytest.mark.parametrize("words", [("racks",), ("racks", "--help"), ("--help",), ("--version",), ()])
def test_a_full_disk_under_stdout_is_told(tmp_path: Path, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "launcher.cli", *words],
            env={**os.environ, "PYTHONPATH": str(ROOT), "NVLAUNCH_HOME": str(tmp_path)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == ExitCode.REMOTE
    assert "error: cannot write to stdout: no space left on device" in done.stderr


def shell(line: str, home: Path) -> "subprocess.CompletedProcess[str]":
    """Run a line of a shell in which `nvlaunch` is this one; only a shell leaves streams closed."""
    return subprocess.run(
        ["bash", "-c", f'nvlaunch() {{ "{sys.executable}" -m launcher.cli "$@"; }}; {line}'],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NVLAUNCH_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_full_disk_under_the_narration_changes_no_exit_code(tmp_path: Path) -> None:
    assert shell("nvlaunch status nothing 2> /dev/full", tmp_path).returncode == ExitCode.USAGE


def test_help_that_nobody_reads_to_its_end_is_no_error(tmp_path: Path) -> None:
    done = shell("set -o pipefail; nvlaunch up --help | true", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(tmp_path: Path, closed: str) -> None:
    done = shell(f"nvlaunch racks {closed}", tmp_path)
    assert (done.returncode, done.stdout) == (0, "")


def test_narration_never_takes_the_place_of_data(tmp_path: Path) -> None:
    assert shell("nvlaunch status 2>&-", tmp_path).stdout == ""


def test_a_closed_stdin_is_no_terminal_to_ask_on(tmp_path: Path) -> None:
    done = shell(f"nvlaunch up '{ROOT / 'examples' / 'demo.yaml'}' <&-", tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert "cannot ask for confirmation without a terminal" in done.stderr


def test_a_home_of_nobody_is_told_with_what_to_set(tmp_path: Path) -> None:
    done = run("status", home=Path("~no-such-user-here/runs"))
    assert done.returncode == ExitCode.USAGE
    assert "hint: set `NVLAUNCH_HOME`" in done.stderr


@pytest.mark.parametrize("words", [("racks", "surplus"), ("logs",), ("racks", "--nothing"), ("events", "-o")])
def test_what_typer_says_reads_like_our_errors(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run(*words, home=tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert re.match(r"error: [a-z`][^\n]*[^.\n]\n", done.stderr)


def test_a_value_that_is_no_text_is_refused_and_not_shown(tmp_path: Path) -> None:
    task, fleet = ROOT / "examples" / "vla-8x64.yaml", ROOT / "examples" / "fleet-9xnvl72.yaml"
    done = shell(f"A=$'hunter\\xff' nvlaunch plan '{task}' -i '{fleet}' --secret A", tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert "error: --secret: the value of `A` is not UTF-8 text" in done.stderr
    assert "hunter" not in done.stderr
