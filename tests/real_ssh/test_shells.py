"""Login shells and start files of every kind: the same results everywhere, or one line that names the cause."""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launcher.errors import RemoteError
from launcher.transport.ssh import command
from launcher.transport.ssh.shell import SshShell
from tests.desk import Desk
from tests.real_ssh.conftest import AMPLE_S, access
from tests.rig import Host, Rig

SHELLS = {
    "bash": "/bin/bash",
    "dash": "/bin/dash",
    "zsh": "/usr/bin/zsh",
    "fish": "/usr/bin/fish",
    "tcsh": "/usr/bin/tcsh",
}
REFUSING = {
    "nologin": ("/usr/sbin/nologin", "login shell of `nologin` is `nologin`: This account is currently not available."),
    "false": ("/bin/false", "login shell of `false` runs no commands: it ended with 1 and printed nothing"),
    "rbash": ("/bin/rbash", "login shell of `rbash` is restricted (`rbash`): "),
    "absent": ("/opt/no-such-shell", "permission denied for `absent`; "),
}
SLOW = '#!/bin/sh\nsleep 1\nexec /bin/bash "$@"\n'
# What a shell reads before a command that sshd hands to it; dash reads nothing.
READS = {"bash": ".bashrc", "zsh": ".zshenv", "fish": ".config/fish/config.fish", "tcsh": ".cshrc"}
ODD = r"""printf '%s\n' '{"ok": true}' 'rc=0' '3.11' '[]' 'nvlaunch-facts {}'; printf 'a\000b\033[31'; """
PRINTS = f"{ODD} head -c 1000000 /dev/zero; printf 'no line end'"
# Text of a start file: one for all shells, or one each.
KINDS: dict[str, str | dict[str, str]] = {
    "nothing": "",
    "prints": f"/bin/sh -c '{PRINTS.replace(chr(39), chr(39) + chr(92) + chr(39) + chr(39))}'",
    "prints to stderr": "/bin/sh -c 'echo warning: no quota >/dev/stderr'",
    "elsewhere": "cd /",
    "fails": "/bin/false",
    "no path": {"tcsh": "setenv PATH /nowhere", "fish": "set -gx PATH /nowhere", "": "export PATH=/nowhere"},
    "no home": {"tcsh": "unsetenv HOME", "fish": "set -e HOME", "": "unset HOME"},
    "odd locale": {
        "tcsh": "setenv LC_ALL xx_YY.utf9",
        "fish": "set -gx LC_ALL xx_YY.utf9",
        "": "export LC_ALL=xx_YY.utf9",
    },
    "aliases": {"tcsh": "alias sh echo; alias timeout echo", "": "alias sh=echo timeout=echo python3=echo"},
    "trap": {
        "bash": "trap 'echo bye' EXIT",
        "zsh": "TRAPEXIT() { echo bye }",
        "fish": "function bye --on-event fish_exit; echo bye; end",
        "tcsh": "",
    },
    "umask": "umask 0",
    "limits": {"tcsh": "limit descriptors 64", "": "ulimit -n 64"},
}
WORDS = ("it's", '"$HOME"', "*", "[0-9]?", "=ls", "!x !!", "a\\b", "line\nbreak", "", "-n", "~root", "grüße")


def text(kind: str, shell: str) -> str:
    """The text of a start file of a kind, in the language of a shell."""
    found = KINDS[kind]
    return found if isinstance(found, str) else found.get(shell, found.get("", ""))


def add(host: Host, name: str, shell: str, uid: int) -> None:
    """Make a user of a host."""
    script = (
        'echo "$1:x:$3:$3::/home/$1:$2" >>/etc/passwd; echo "$1:x:$3:" >>/etc/group; '
        'echo "$1:*:19000:0:99999:7:::" >>/etc/shadow; mkdir -p "/home/$1/.config/fish"; chown -R "$3:$3" "/home/$1"'
    )
    host.run(["sh", "-c", script, "sh", name, shell, str(uid)])


def start_file(host: Host, shell: str, words: str) -> None:
    """Write the start file of a user who is called as the shell."""
    path = f"/home/{shell}/{READS[shell]}"
    host.write(path, f"{words}\n")


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """A host with a user for each login shell, called as that."""
    with Rig(1, 1, name="shells", python=sys.executable) as made:
        (host,) = made.hosts.values()
        host.write("/usr/local/bin/slow", SLOW, mode=0o755)
        shells = {**SHELLS, **{name: path for name, (path, _) in REFUSING.items()}, "slow": "/usr/local/bin/slow"}
        for uid, (name, path) in enumerate(shells.items(), 3000):
            add(host, name, path, uid)
        yield made


@pytest.fixture
def host(rig: Rig) -> Iterator[Host]:
    """The host; start files are empty again afterwards."""
    (found,) = rig.hosts.values()
    yield found
    for shell in READS:
        start_file(found, shell, "")


@pytest.mark.parametrize("kind", KINDS)
def test_every_shell_gives_the_same_results_whatever_its_start_file_does(
    shell: SshShell, rig: Rig, host: Host, kind: str
) -> None:
    for name in READS:
        start_file(host, name, text(kind, name))

    def ask(name: str) -> None:
        at = access(rig, host, user=name)
        said = shell.run(at, ["printf", "%s|", *WORDS], timeout=AMPLE_S).stdout.decode()
        assert said == "".join(f"{word}|" for word in WORDS), name
        assert shell.run(at, ["cat"], stdin=b"a line\n\0rest", timeout=AMPLE_S).stdout == b"a line\n\0rest", name
        assert shell.run(at, ["sh", "-c", "exit 7"], timeout=AMPLE_S).status == 7, name
        shell.put(at, f"put-{len(kind)}", {"file": (b"content", 0o640)}, timeout=AMPLE_S)
        stat = ["stat", "-c", "%a %U", f"/home/{name}/put-{len(kind)}", f"/home/{name}/put-{len(kind)}/file"]
        assert shell.run(at, stat, timeout=AMPLE_S).stdout.decode() == f"700 {name}\n640 {name}\n"
        talk = shell.converse(at, ["sh", "-c", "read -r x; echo heard $x"], timeout=AMPLE_S, knock=AMPLE_S)
        talk.send(b"you\n")
        assert talk.read() == b"heard you\n", name
        talk.close()

    with ThreadPoolExecutor(len(SHELLS)) as pool:
        list(pool.map(ask, SHELLS))


@pytest.mark.parametrize("name", REFUSING)
def test_a_shell_that_runs_no_commands_is_named(shell: SshShell, rig: Rig, host: Host, name: str) -> None:
    with pytest.raises(RemoteError) as caught:
        shell.run(access(rig, host, user=name), ["true"], timeout=AMPLE_S)
    assert caught.value.message.startswith(REFUSING[name][1])


def test_a_shell_that_takes_its_time_is_waited_for(shell: SshShell, rig: Rig, host: Host) -> None:
    assert shell.run(access(rig, host, user="slow"), ["cat"], stdin=b"x", timeout=AMPLE_S).stdout == b"x"


WAITS = {
    "bash": "read answer",
    "zsh": "sleep 600",
    "fish": "sleep 600",
    "tcsh": "set answer = $<",
}


def test_a_start_file_that_waits_is_named_and_not_waited_for_again(
    shell: SshShell, rig: Rig, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "LOGIN_S", 2.0)
    for name, words in WAITS.items():
        start_file(host, name, words)

    def ask(name: str) -> None:
        at = access(rig, host, user=name)
        for most in (AMPLE_S, 1.0):
            with pytest.raises(RemoteError) as caught:
                shell.run(at, ["cat"], stdin=b"{}", timeout=AMPLE_S)
            assert caught.value.message == f"the login of `{name}` does not end within 2 s: `~/.bashrc`?"
            assert caught.value.elapsed < most or most == 1.0
        with pytest.raises(RemoteError, match="does not end"):
            shell.converse(at, ["cat"], timeout=AMPLE_S, knock=AMPLE_S)

    with ThreadPoolExecutor(len(WAITS)) as pool:
        list(pool.map(ask, WAITS))


LEAVES = {"bash": "exit 3", "zsh": "exit 4", "fish": "exec tmux", "tcsh": "exec /bin/false"}


def test_a_start_file_that_leaves_is_named(shell: SshShell, rig: Rig, host: Host) -> None:
    for name, words in LEAVES.items():
        start_file(host, name, words)
    for name in LEAVES:
        with pytest.raises(RemoteError, match=f"login shell of `{name}` runs no commands: ") as caught:
            shell.run(access(rig, host, user=name), ["true"], timeout=AMPLE_S)
        assert "~/.bashrc" in caught.value.hints[0]


# Debian's guard; below it what installers of conda and uv write, and what people do.
BASHRC = """\
echo welcome; echo "$(date) for you" >&2
case $- in *i*) ;; *) return ;; esac
. /opt/conda/etc/profile.d/conda.sh
PATH=$HOME/.local/bin:$PATH
DATA=/mnt/data
alias snake=/work-python
alias rm='rm -i'
umask 027
ulimit -S -c 0 -s 4096
"""
CONDA = """\
#!/bin/sh
# conda create -yn NAME
mkdir -p ~/envs/"$3"/bin
printf '#!/bin/sh\\necho tool of %s\\n' "$3" >~/envs/"$3"/bin/tool
chmod 755 ~/envs/"$3"/bin/tool
"""
CONDA_SH = """\
export CONDA_EXE=/opt/conda/bin/conda
conda() { if [ "$1" = activate ]; then PATH=$HOME/envs/$2/bin:$PATH; else /opt/conda/bin/conda "$@"; fi; }
"""
TASK = """
name: {name}
resources: {{accelerators: GB300:4}}
topology: {{slices: 1, nodes_per_slice: 1}}
stop_grace: 1
secrets: {{TOKEN: null}}
setup: |
  conda create -yn x && conda activate x && tool
  echo 'export LATE="$DATA late"' >>~/.bashrc
run: |
  module load cuda
  conda activate x; tool; bash -c 'conda activate x; tool'
  echo "$LATE, $DATA, $(type -t rm), $(umask), $(nice), $(cat /proc/self/oom_score_adj)"
  ulimit -Sn -l -u -s | sed 's/.*) *//' | tr '\\n' ' '
  echo; touch made; until [ -e ~/gate ]; do sleep 0.1; done
"""
WHOLE = ["fish", "tcsh"] if "NVLAUNCH_SOAK" not in os.environ else list(SHELLS)


@pytest.mark.parametrize("name", WHOLE)
def test_a_run_has_what_a_login_has_and_what_its_bashrc_gives(
    rig: Rig, host: Host, tmp_path: Path, name: str, user: Path
) -> None:
    host.write("/opt/conda/bin/conda", CONDA, mode=0o755)
    host.write("/opt/conda/etc/profile.d/conda.sh", CONDA_SH)
    host.write("/etc/profile.d/lmod.sh", 'module() { echo "loaded $2"; }\nexport -f module 2>/dev/null\n')
    host.write(f"/home/{name}/.bashrc", BASHRC)
    host.write(f"/home/{name}/.local/bin/uv", "#!/bin/sh\necho uv\n", mode=0o755)
    host.run(["chown", "-R", f"{name}:", f"/home/{name}"])
    limits = ["--nofile=1024:8192", "--memlock=65536:1048576", "--nproc=2000:3000", "--stack=8388608:unlimited"]
    host.run(["prlimit", "--pid", host.read("/run/sshd.pid").strip(), *limits])
    desk = Desk(tmp_path, rig.inventory(user=name), HOME=str(user), TOKEN="t0ken")
    task = desk.task(name, TASK.format(name=name))
    up = desk.run("up", str(task), "-y", "-d", "-i", str(desk.inventory), "--secret", "TOKEN")
    try:
        assert up.returncode == 0, up.stderr
        seen_state = desk.until(name, lambda seen: seen["state"] in ("running", "failed"))
        assert seen_state["state"] == "running", desk.run("events", name).stdout
        assert desk.run("logs", name, "--provision").stdout.endswith("tool of x\n")
        made = desk.run("exec", name, "--timeout", "60", "--", "sh", "-c", "until [ -e made ]; do sleep 0.1; done")
        assert made.returncode == 0, made.stderr
        lines = desk.run("logs", name).stdout.splitlines()
        assert [line.removeprefix("main/0: ") for line in lines] == [
            "loaded cuda",
            "tool of x",
            "tool of x",
            "/mnt/data late, /mnt/data, file, 0027, 0, 0",
            "8192 1024 3000 4096 ",
        ]
        said = desk.run("exec", name, "--", "printf", "%s|", *WORDS)
        assert said.stdout == "".join(f"{word}|" for word in WORDS)
        assert desk.run("exec", name, "--", "uv").stdout == "uv\n"
        assert (
            desk.run("exec", name, "--", "sh", "-c", "echo $LATE $TOKEN; ulimit -Sn").stdout == "/mnt/data late\n8192\n"
        )
        down = desk.run("sync-down", name, "made", str(tmp_path / "got"))
        assert down.returncode == 0, down.stderr
    finally:
        assert desk.run("down", "--all", "-y").returncode == 0
    own = [one for one in host.processes(user=None) if one.uid >= 3000 and "-c" not in one.argv]
    assert not [one for one in own if one.argv != ("sleep", "600")], "start files of other tests sleep"
