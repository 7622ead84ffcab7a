"""What `~/.bashrc` gives to scripts, and what it cannot do to them. Each case is a real bash."""

import importlib
import subprocess
import time
from pathlib import Path

import pytest

login = importlib.import_module("launcher.runtime.login")
start_files = importlib.import_module("launcher.runtime.start_files")

GUARD = "case $- in *i*) ;; *) return ;; esac\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "memory").mkdir()
    return tmp_path / "home"


def read(home: Path, bashrc: str, **base: str) -> "start_files.StartFiles":
    """What a program starts with; the home has this `.bashrc`."""
    (home / ".bashrc").write_text(bashrc)
    given = {"HOME": str(home), "PATH": "/usr/bin:/bin", **base}
    return start_files.read(given, 0o022, home.parent / "memory", "run:node:1:main/0:1")


def script(start: "start_files.StartFiles", text: str) -> tuple[str, str]:
    """What a script says that starts so, on both streams."""
    path = Path(start.env["HOME"]).parent / "script.sh"
    path.write_text(text)
    done = subprocess.run(
        ["/bin/bash", str(path)],
        env={**start.env, **start.script},
        umask=start.umask,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )
    return done.stdout, done.stderr


def test_what_is_below_debians_guard_counts_and_nothing_that_is_printed_does(home: Path) -> None:
    start = read(
        home,
        f"echo welcome; echo trouble >&2\n{GUARD}export TOOLS=/opt/tools\nDATA=/mnt/data\nset -- x\n"
        "greet() { echo hello $1; }\nalias snake='echo snake'\nalias cat='cat -n'\nkeep=(a 'b c')\numask 027\n"
        "export -n HIDDEN=1; ulimit -S -c 0 -s 4096; shopt -s nocaseglob; set -o noglob\n",
    )
    out, err = script(
        start,
        'echo "$TOOLS $DATA ${keep[1]} $# ${0##*/} $LINENO $(umask) $(ulimit -Ss)"; greet you; snake; echo x | cat\n'
        "bash -c 'echo inner $TOOLS ${DATA-no} ${BASH_ENV-no}'; echo /b*n; trap\n",
    )
    assert (
        out == "/opt/tools /mnt/data b c 0 script.sh 1 0027 4096\nhello you\nsnake\nx\ninner /opt/tools no no\n/bin\n"
    )
    assert (err, start.trouble) == ("", "")


def test_functions_of_conda_are_there_in_inner_scripts_too(home: Path) -> None:
    profile = home / "conda/etc/profile.d/conda.sh"
    profile.parent.mkdir(parents=True)
    (home / "conda/bin").mkdir()
    profile.write_text("conda() { echo conda $1; }\n")
    start = read(home, f"{GUARD}export CONDA_EXE={home}/conda/bin/conda\n")
    assert script(start, "conda activate; bash -c 'conda deactivate'\n") == ("conda activate\nconda deactivate\n", "")


def test_the_users_own_bash_env_is_read_as_before(home: Path) -> None:
    (home / "lmod.sh").write_text("module() { echo module $1; }\n")
    start = read(home, "", BASH_ENV=str(home / "lmod.sh"))
    assert script(start, "module a; bash -c 'module b'\n") == ("module a\nmodule b\n", "")


@pytest.mark.parametrize(
    "words",
    [
        "read answer; export Q=1",
        "export Q=1; trap 'echo bye' EXIT; set -eu",
        "exec >/dev/full 2>&1 <&-; export Q=1",
        "head -c 3000000 /dev/zero; export Q=1",
        "cd /; PATH=/nowhere; export Q=1",
        "unset HOME; export Q=1",
        "alias env=false printf=false exec=false; printf() { false; }; export Q=1",
        "export Q=1 LC_ALL=xx_YY.utf9 LANG=POSIX",
        "shopt -s extglob\nf() { case $1 in !(a|b)) echo no ;; esac; }; export Q=1",
        "return 3; export Q=2",
    ],
)
def test_odd_files_are_read_all_the_same(home: Path, words: str) -> None:
    start = read(home, f"{words}\n", Q="0")
    assert start.trouble == ""
    assert script(start, "echo $Q\n")[0] == ("0\n" if words.startswith("return") else "1\n")


@pytest.mark.parametrize(
    ("words", "how"), [("exit 3", "ended with 3"), ("exec true", "ended before its last line"), ("set -e; false", "1")]
)
def test_a_file_that_leaves_is_named_and_left_out(home: Path, words: str, how: str) -> None:
    start = read(home, f"export Q=1\n{words}\n", Q="0")
    assert (start.env["Q"], start.script) == ("0", {})
    assert how in start.trouble
    assert "`~/.bashrc`? It is left out" in start.trouble


def test_a_file_that_waits_is_ended_and_not_read_again_until_it_changes(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "LIMIT_S", 0.5)
    first = read(home, "(sleep 4731 &) ; sleep 4731\n")
    assert "does not end within" in first.trouble
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if _reads(path).startswith("sleep\x004731")]
    stat = (home / ".bashrc").stat()
    begun = time.monotonic()
    again = start_files.read({"HOME": str(home), "PATH": "/bin"}, 0o022, home.parent / "memory", "r:n:1")
    assert (again.trouble, time.monotonic() - begun < 0.4) == (first.trouble, True), stat
    assert read(home, "export Q=1\n").env["Q"] == "1"


def _reads(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def test_a_login_gives_its_variables_past_all_that_it_prints(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = login.read({"HOME": str(home), "PATH": "/usr/bin:/bin"})
    assert found.trouble == ""
    assert found.environ["HOME"] == str(home)
    assert found.umask == login.own_umask()
