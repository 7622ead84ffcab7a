"""What a program that an agent starts begins with."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

SPAWN = Path(__file__).parents[3] / "launcher" / "runtime" / "spawn.py"
SHOW = "pwd; umask; ulimit -Sn; ulimit -Hn; ulimit -Sl; ulimit -Hl; ulimit -Su; ulimit -Hu; ulimit -Ss"


def started(folder: Path, *words: str) -> list[str]:
    """What a program sees that is started with low soft limits."""

    def lower() -> None:
        for limit, soft in (
            (resource.RLIMIT_NOFILE, 256),
            (resource.RLIMIT_MEMLOCK, 65536),
            (resource.RLIMIT_NPROC, 900),
        ):
            resource.setrlimit(limit, (soft, resource.getrlimit(limit)[1]))

    argv = [sys.executable, "-EsS", str(SPAWN), str(os.getpid()), *words, str(folder), "bash", "-c", SHOW]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, umask=0o022, preexec_fn=lower)
    return done.stdout.split()


@pytest.mark.parametrize(("words", "umask"), [(("7",), "0007"), (("77",), "0077"), ((), "0022")])
def test_limits_are_raised_but_for_the_stack_and_the_umask_is_the_one_given(
    tmp_path: Path, words: tuple[str, ...], umask: str
) -> None:
    """An agent of the version before gives none."""
    folder, mask, nofile, most_nofile, memlock, most_memlock, nproc, most_nproc, stack = started(tmp_path, *words)
    assert (folder, mask) == (str(tmp_path), umask)
    assert (nofile, memlock, nproc) == (most_nofile, most_memlock, most_nproc)
    soft = resource.getrlimit(resource.RLIMIT_STACK)[0]
    assert stack == ("unlimited" if soft == resource.RLIM_INFINITY else str(soft // 1024))
