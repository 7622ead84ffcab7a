"""Scripts of PyTorch and Accelerate, unmodified, that lose a node: they end with the losses of an undisturbed run.

They need Debian's `python3-torch` (CPU, with gloo), so they are a part of the soak: `make programs`.
"""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.programs.stage import Program
from tests.rig import Rig

DDP = "ddp_snapshots.py --epochs 12 --snapshot snapshot.pt --losses losses"
ACCELERATED = "accelerated.py --steps 96 --states states --losses losses"
LAUNCH = (
    "python3 -m accelerate.commands.launch --multi_gpu --num_machines $NNODES --machine_rank $NODE_RANK "
    "--num_processes $((NNODES * NVLAUNCH_NUM_GPUS_PER_NODE)) "
    "--main_process_ip $MASTER_ADDR --main_process_port $MASTER_PORT --tee 9:1"
)
"""As in examples/accelerate.yaml, but for `--tee`: see `ENVS`, which it does not read."""
# Debian's PyTorch 1.13 reads the defaults of these two options wrongly on Python 3.11; there is no rank 9.
ENVS = {"PET_REDIRECTS": "9:1", "PET_TEE": "9:1", "OMP_NUM_THREADS": "1"}


@pytest.fixture
def program(rig: Rig, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Program]:
    made = Program(rig, tmp_path, request.node.callspec.id)
    yield made
    made.clear()


def power_cut(program: Program, rank: int) -> None:
    """No packet comes from the host any more, and nobody is told."""
    program.holder(rank).power_cut()


def raylet_killed(program: Program, rank: int) -> None:
    """The rank ends with its raylet, and so do its connections: programs of its peers fail at once."""
    host = program.holder(rank)
    for process in host.processes(program.name):
        if Path(process.argv[0]).name == "raylet" and "/head" not in " ".join(process.argv):
            host.kill(process.pid)


@pytest.mark.parametrize(
    ("launcher", "script", "fault", "rank"),
    [
        pytest.param("torchrun", DDP, power_cut, 1, id="ddp"),
        pytest.param("torchrun", DDP, power_cut, 0, id="ddp-rank-0"),
        pytest.param("torchrun", DDP, raylet_killed, 1, id="ddp-peers-fail"),
        pytest.param("torchrun", ACCELERATED, power_cut, 1, id="accelerate"),
        pytest.param(LAUNCH, ACCELERATED, power_cut, 0, id="accelerate-launch"),
    ],
)
def test_a_script_that_loses_a_node_ends_with_the_losses_of_an_undisturbed_run(
    program: Program,
    accelerate: str,
    launcher: str,
    script: str,
    fault: Callable[[Program, int], None],
    rank: int,
    record_property: Callable[[str, object], None],
) -> None:
    command = f"cd /shared/{program.name} && exec {launcher} {script} --pause 0.1"
    program.up({"run": command}, envs={**ENVS, "PYTHONPATH": accelerate})
    program.logged(30)
    fault(program, rank)
    took = program.resumed()
    record_property("recovered_s", round(took, 1))
    print(f"{program.name}: a step again {took:.1f} s after the fault")
    last = program.over()
    assert last["state"] == "succeeded", program.told()
    assert (last["attempt"], last["restarts"]) == (2, 0), program.told()
    by_hand = ["torchrun", "--standalone", "--nproc_per_node", "4", *shlex.split(script)]
    program.holds(program.calm(by_hand, {**ENVS, "PYTHONPATH": str(program.rig.shared / "lib")}))
