"""Scripts of PyTorch and Accelerate, unmodified, that lose a node: they end with the losses of an undisturbed run.

They need Debian's `python3-torch` (CPU, with gloo), so they are a part of the soak: `make programs`.
"""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.programs.stage import Program
from tests.rig import Host, Rig

STEPS = 96
COMMANDS = {
    "ddp": "torchrun {options} ddp_snapshots.py --epochs 12 --snapshot snapshot.pt --losses losses --pause {pause}",
    "accelerate": "torchrun {options} accelerated.py --steps 96 --states states --losses losses --pause {pause}",
    "launched": (
        "python3 -m accelerate.commands.launch --multi_gpu {options} "
        "accelerated.py --steps 96 --states states --losses losses --pause {pause}"
    ),
}
# Debian's PyTorch 1.13 reads the defaults of these two options wrongly on Python 3.11: any rank that is not there will do.
ENVS = {"PET_REDIRECTS": "9:1", "PET_TEE": "9:1", "OMP_NUM_THREADS": "1"}


def power_cut(host: Host) -> None:
    """No packet comes from it any more, and nobody is told."""
    host.power_cut()


def processes_killed(host: Host) -> None:
    """Its processes end, and with them all connections: the peers' programs fail at once."""
    for process in host.processes("programs-"):
        if Path(process.argv[0]).name == "raylet" or "torchrun" in " ".join(process.argv[:3]):
            host.kill(process.pid)


@pytest.fixture
def program(rig: Rig, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Program]:
    made = Program(rig, tmp_path, request.node.callspec.id.replace("_", ""))
    yield made
    made.clear()


@pytest.mark.parametrize(
    ("script", "fault", "rank"),
    [
        pytest.param("ddp", power_cut, 1, id="ddp-power-cut"),
        pytest.param("ddp", power_cut, 0, id="ddp-power-cut-rank0"),
        pytest.param("accelerate", power_cut, 1, id="accelerate-power-cut"),
    ],
)
def test_a_script_that_loses_a_node_ends_with_the_losses_of_an_undisturbed_run(
    program: Program,
    script: str,
    fault: Callable[[Host], None],
    rank: int,
    record_property: Callable[[str, object], None],
) -> None:
    libraries = {"PYTHONPATH": "/shared/lib"} if script != "ddp" else {}
    command = COMMANDS[script].format(options="", pause=0.1)
    program.up({"run": f"cd /shared/{program.name} && exec {command}"}, envs={**ENVS, **libraries})
    program.logged(30)
    host, before = program.holder(rank), program.lines()
    fault(host)
    took = program.resumed(before + 1)
    record_property("recovered_s", round(took, 1))
    print(f"{program.name}: a step again {took:.1f} s after the fault")
    last = program.over()
    assert last["state"] == "succeeded", program.told()
    assert (last["attempt"], last["restarts"]) == (2, 0), program.told()
    by_hand = shlex.split(COMMANDS[script].format(options="--standalone --nproc_per_node 4", pause=0))
    program.holds(program.calm(by_hand, ENVS))
