"""How long until every rank runs again, ours beside Ray alone, on one rig in one run.

`bench_recovery.py [TRIES [CASE...]]`; needs root, as the rig does. Ray alone is Ray as it comes: its own health checks,
a group in one domain, and actors that it restarts itself. Ours counts until each rank does its next step, Ray's until
each actor answers. Where a process dies on a machine that lives, the limit is how long Ray takes to notice the end of a
raylet with our health checks, measured in the same run, and 1.5 s more.
Five tries of all cases take more than an hour: Ray alone needs up to three minutes for each silence.
"""

import itertools
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from launcher.setup.ray import environment
from tests.fake.test_scenarios import SCENARIOS, read
from tests.recovery.stage import Stage
from tests.rig import Host, Rig


@dataclass(frozen=True)
class Case:
    """What breaks of ours and of Ray alone, and within how many seconds every rank is to run again.

    `limit` None: Ray's own noticing and `BESIDE_S`.
    """

    alone: str
    limit: float | None


BESIDE_S = 1.5
CASES = {
    "raylet_killed": Case("raylet_killed", None),
    "agent_killed": Case("raylet_killed", None),
    "power_cut": Case("power_cut", 20.0),
    "power_cut_fenced": Case("power_cut", 16.0),
    "power_cut_queried": Case("power_cut", 10.0),
    "rack_lost": Case("rack_lost", 30.0),
}
SCRIPT = Path(__file__).parents[1] / "recovery" / "ray_alone.py"
PORT = 6401
PATIENCE_S = 300.0


def main() -> None:
    """Print the median of each, how many times faster ours is, and how busy this machine was meanwhile."""
    tries = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    cases = sys.argv[2:] or list(CASES)
    if unknown := set(cases) - set(CASES):
        sys.exit(f"unknown case {', '.join(sorted(unknown))}: there are {', '.join(CASES)}")
    paths = {path.stem: path for path in SCENARIOS}
    known: dict[str, list[float]] = {}
    with Rig(3, 5, head=True, nvidia=True, python=sys.executable, name="recoverbench") as rig:
        for case in cases:
            before, kind = _load(), CASES[case]
            ours = [_ours(rig, case, paths[case]) for _ in range(tries)]
            if kind.alone not in known:  # Ray alone knows no difference between some of ours
                known[kind.alone] = [_alone(rig, kind.alone) for _ in range(tries)]
            if kind.limit is None and "noticed" not in known:
                known["noticed"] = [_alone(rig, kind.alone, noticing=True) for _ in range(tries)]
            alone, noticed = known[kind.alone], known.get("noticed", [])
            mine, theirs = statistics.median(ours), statistics.median(alone)
            limit = statistics.median(noticed) + BESIDE_S if kind.limit is None else kind.limit
            print(
                f"{case}: {mine:.1f} s, {mine / limit:.2f} of its limit ({limit:.1f} s); Ray alone {theirs:.1f} s, "
                f"{theirs / mine:.1f}x; ours {_row(ours)}, Ray {_row(alone)}"
                f"{f', Ray notices after {_row(noticed)}' if kind.limit is None else ''}; "
                f"load {before:.1f} before and {_load():.1f} after, on {os.cpu_count()} cores",
                flush=True,
            )


def _load() -> float:
    return os.getloadavg()[0]


def _row(times: list[float]) -> str:
    return " ".join(f"{took:.1f}" for took in times)


def _ours(rig: Rig, case: str, path: Path) -> float:
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(rig, Path(folder), case.replace("_", ""), read(path))
        try:
            stage.up()
            stage.strike()
            return stage.recovered(2, PATIENCE_S)
        finally:
            stage.clear()


def _alone(rig: Rig, case: str, *, noticing: bool = False) -> float:
    """Three ranks, and where a rack is lost a second one that has room for them; how long until all answer again.

    With `noticing`: how long Ray with our health checks takes to list a lost raylet as dead.
    """
    racks = [hosts[:4] for hosts in rig.racks().values()][: 2 if case == "rack_lost" else 1]
    folder = rig.shared / "ray-alone"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    folder.chmod(0o777)
    told = folder / "told.json"
    (folder / SCRIPT.name).write_text(SCRIPT.read_text())
    hosts = [rig.head, *itertools.chain(*racks)]
    try:
        _start(rig, hosts, ours=noticing)
        here = f"/shared/{folder.name}"
        python = f"{sys.executable} {here}/{SCRIPT.name} {rig.head.address}:{PORT} 3 {here}/{told.name}"
        rig.head.spawn(["sh", "-c", f"cd {here} && exec {python} >log 2>&1"], user=rig.user)
        before = _until(told, lambda where: all(where))
        lost = _strike(rig, case, before)
        struck = time.monotonic()
        if noticing:
            _until(told.with_suffix(".dead"), bool)
            return time.monotonic() - struck
        _until(told, lambda where: not all(where))
        _until(told, lambda where: all(where) and not set(where) & lost)
        return time.monotonic() - struck
    finally:
        told.with_suffix(".stop").touch()
        for host in hosts:
            host.power_cut()
            host.boot()


def _start(rig: Rig, hosts: list[Host], *, ours: bool) -> None:
    checks = environment(head=True, tls=False) if ours else {}
    given = [f"{name}={value}" for name, value in checks.items() if name.startswith(("RAY_health", "RAY_grpc"))]
    ray = shutil.which("ray", path=str(Path(sys.executable).parent)) or "ray"
    for at, host in enumerate(hosts):
        own = [f"--node-ip-address={host.address}", "--disable-usage-stats", "--block"]
        head = ["--head", f"--port={PORT}", "--num-cpus=0", "--num-gpus=0", "--include-dashboard=false"]
        slot = [f"--address={rig.head.address}:{PORT}", "--num-cpus=4", "--num-gpus=4"]
        label = [f"--labels=ray.io/gpu-domain={host.rack}"]
        host.spawn(["env", *given, sys.executable, ray, "start", *own, *(slot + label if at else head)], user=rig.user)
        if not at:
            end = time.monotonic() + PATIENCE_S
            while host.run(["bash", "-c", f"exec 3<>/dev/tcp/{host.address}/{PORT}"], check=False).returncode:
                assert time.monotonic() < end, "Ray's head does not start"


def _strike(rig: Rig, case: str, where: list[str]) -> set[str]:
    """Break the node of the first rank, or its whole rack; return the addresses that cannot come back."""
    host = next(host for host in rig.hosts.values() if host.address == where[0])
    if case == "raylet_killed":
        for process in host.processes("raylet"):
            if Path(process.argv[0]).name == "raylet":
                host.kill(process.pid)
        return {host.address}
    lost = [host] if case == "power_cut" else rig.racks()[host.rack]
    for one in lost:
        one.power_cut()
    return {one.address for one in lost}


def _until(told: Path, holds: Callable[[list[str]], bool]) -> list[str]:
    end = time.monotonic() + PATIENCE_S
    while True:
        if told.exists() and holds(where := json.loads(told.read_text())):
            return [str(one) for one in where]
        assert time.monotonic() < end, f"Ray alone does not come back: {_last(told.with_name('log'))}"
        time.sleep(0.05)


def _last(log: Path) -> str:
    return log.read_text()[-2000:] if log.exists() else "its program said nothing"


if __name__ == "__main__":
    main()
