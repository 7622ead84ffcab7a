"""What `~/.bashrc` gives to setups, ranks and commands, as SkyPilot's `bash -i` reads it.

It is read anew before each start, because a setup may change it (`conda init`, the installer of uv), and in a shell of
its own, which may wait, print or leave: variables come back from it, and its functions and other variables as a file
that bash reads before a script (`BASH_ENV`). A script is never run by `bash -i` itself: that ignores SIGTERM and takes
`!` for history.

An alias counts only where no program has its name: `python` for `python3`, but not `rm` for `rm -i`.
"""

import contextlib
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from . import environment, files, login

if TYPE_CHECKING:
    from .protocol import EnvironmentReply

MEMORY = "start-files.json"
"""The file beside a run's secrets that says which version of `~/.bashrc` could not be read."""

# bash runs this with the paths of two answers, for the text of BASH_ENV and for variables, and a word for /etc/profile.
_READ = r"""
__nv_text=$1 __nv_variables=$2
__nv_known=" $(builtin compgen -v) "; __nv_known=${__nv_known//$'\n'/ }
if [ -n "$3" ]; then __nv_path=$PATH; . /etc/profile; PATH=$__nv_path:$PATH; fi
[ -r /etc/bash.bashrc ] && . /etc/bash.bashrc
[ -r ~/.bashrc ] && . ~/.bashrc
\builtin shopt -u expand_aliases
builtin trap - EXIT DEBUG RETURN ERR; builtin set +efunxv
__nv_conda=${CONDA_EXE:-$(builtin type -P conda)}
if [ -n "$__nv_conda" ]; then
    __nv_conda=$(/usr/bin/readlink -f -- "$__nv_conda"); __nv_conda=${__nv_conda%/*/*}/etc/profile.d/conda.sh
    if [ -r "$__nv_conda" ]; then builtin set -a; . "$__nv_conda"; builtin set +a; fi
fi
{
    __nv_extglob=$(builtin shopt -p extglob)
    builtin echo "shopt -s extglob"
    for __nv_name in $(builtin compgen -v); do
        case $__nv_known in *" $__nv_name "*) continue ;; esac
        case $__nv_name in __nv_*|BASH*|COMP_*|PIPESTATUS|FUNCNAME|REPLY|MAPFILE|OPTARG) continue ;; esac
        __nv_line=$(builtin declare -p "$__nv_name" 2>/dev/null)
        __nv_flags=${__nv_line#declare }
        case ${__nv_flags%% *} in *x*) ;; *) builtin echo "$__nv_line" ;; esac
    done
    builtin declare -f
    builtin echo "$__nv_extglob"
    builtin echo "ulimit -Sc $(builtin ulimit -Sc); ulimit -Ss $(builtin ulimit -Ss)"
    for __nv_name in "${!BASH_ALIASES[@]}"; do
        builtin type -P -- "$__nv_name" >/dev/null || builtin alias -- "$__nv_name"
    done
    builtin echo "shopt -s expand_aliases"
} >"$__nv_text" 2>/dev/null
builtin printf 'umask=%s\0' "$(builtin umask)" >"$__nv_variables"
builtin exec /usr/bin/env -0 >>"$__nv_variables"
"""


class StartFiles:
    """What a program of the user starts with; `trouble` says why `~/.bashrc` was left out, else it is empty.

    `env` has no `BASH_ENV` yet: its text is in memory of this process, so that only children of it can use it.
    """

    def __init__(self, env: Mapping[str, str], umask: int, trouble: str = "") -> None:
        self.env = dict(env)
        self.umask = umask
        self.trouble = trouble
        self._text: login.MemoryFile | None = None
        self._first: login.MemoryFile | None = None

    def keep(self, text: login.MemoryFile) -> None:
        """Keep the functions and variables that are not exported."""
        self._text, self._first = text, login.MemoryFile()
        mine = self.env.get("BASH_ENV")
        lines = [f"export BASH_ENV={shlex.quote(mine)}" if mine else "unset BASH_ENV", f". {text.path} 2>/dev/null"]
        lines += [f". {shlex.quote(mine)}"] if mine else []
        Path(self._first.path).write_text("\n".join([*lines, ""]))

    @property
    def script(self) -> dict[str, str]:
        """Return the variable that has bash read functions first, for a script that this process starts and awaits."""
        return {"BASH_ENV": self._first.path} if self._first else {}


def read(base: Mapping[str, str], umask: int, memory: Path, mark: str) -> StartFiles:
    """Return what a program starts with, from a login's variables.

    `memory` is the folder of the file about what could not be read: that is not tried again. `mark` is for what
    `~/.bashrc` leaves running.
    """
    stamp = _stamp(Path(base.get("HOME", "/"), ".bashrc"))
    known = files.read(memory / MEMORY) or {}
    if known.get("stamp") == stamp:
        return StartFiles(base, umask, known["trouble"])
    text, variables = login.MemoryFile(), login.MemoryFile()
    argv = ["bash", "--norc", "-ic", _READ, "bash", text.path, variables.path, *_profile(base)]
    env = {"TERM": "dumb", **base, environment.MARK: mark}
    failed = login.run(argv, env, executable=bash(base), umask=umask)
    found = variables.variables()
    variables.close()
    if "PATH" in found or "umask" in found:
        made = StartFiles(environment.user(found, whole=True), int(found.pop("umask"), 8))
        made.env.pop("umask", None)
        made.keep(text)
        return made
    text.close()
    trouble = f"{login.in_words(failed, '`~/.bashrc`')} It is left out"
    with contextlib.suppress(OSError):
        files.write(memory / MEMORY, {"stamp": stamp, "trouble": trouble})
    return StartFiles(base, umask, trouble)


def of_agent(given: "EnvironmentReply", mark: str) -> StartFiles:
    """Return what a program starts with, from an agent's reply."""
    base, umask = given["base"], given.get("umask", login.own_umask())
    if not given.get("login"):
        return StartFiles(base, umask)
    return read(base, umask, Path(given["secrets"]).parent, mark)


def _profile(base: Mapping[str, str]) -> tuple[str, ...]:
    """Return a word where the login shell is not of sh's family: then nobody has read `/etc/profile` yet."""
    foreign = os.path.basename(base.get("SHELL", "")) in ("fish", "csh", "tcsh") and os.access("/etc/profile", os.R_OK)
    return ("profile",) if foreign else ()


def _stamp(path: Path) -> list[int]:
    try:
        found = path.stat()
    except OSError:
        return [0, 0]
    return [found.st_mtime_ns, found.st_size]


def bash(base: Mapping[str, str]) -> str:
    """Return the path of bash, by the PATH of a login."""
    folders = base.get("PATH", "").split(":")
    return next((path for one in (*folders, "/bin") if os.access(path := os.path.join(one, "bash"), os.X_OK)), "bash")
