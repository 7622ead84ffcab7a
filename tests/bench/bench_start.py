"""How long the command takes to start, beside the least that it needs: printed, not asserted."""

import os
import resource
import subprocess
import sys
import tempfile
import time

ROUNDS = 20
BASE = "import typer, rich, yaml"
RUN = "import sys; from launcher.cli.main import main; sys.exit(main(sys.argv[1:]))"
CASES = {
    BASE: ("-c", BASE),
    "nvlaunch --help": ("-c", RUN, "--help"),
    "nvlaunch status": ("-c", RUN, "status"),
}


def main() -> None:
    """Time each case in turn, so that a busy machine is busy for all; the shortest of each counts."""
    wall = dict.fromkeys(CASES, float("inf"))
    work = dict(wall)
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "NVLAUNCH_HOME": home}
        for _ in range(ROUNDS):
            for case, words in CASES.items():
                begun, worked = time.perf_counter(), _work()
                subprocess.run([sys.executable, *words], env=env, check=True, capture_output=True)
                wall[case] = min(wall[case], time.perf_counter() - begun)
                work[case] = min(work[case], _work() - worked)
    print(f"{'start-up':28} {'time':>9}         {'processor':>9}")
    for case in CASES:
        print(f"{case:28} {_figures(case, wall)}  {_figures(case, work)}")


def _work() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _figures(case: str, seconds: dict[str, float]) -> str:
    return f"{seconds[case] * 1000:6.1f} ms {seconds[case] / seconds[BASE]:.2f}x"


if __name__ == "__main__":
    main()
