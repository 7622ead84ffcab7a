"""What the pictures of a page begin with: racks, tasks, and the commands that were typed before.

A block of a page is a picture where the line before it names a session:

    <!-- session: NAME -->                      the commands in the block are run again, and their output compared
    <!-- session: NAME; until: RUN STATE -->    first wait until a run is in a state
    <!-- session: NAME; until: RUN STATE 2 -->  first wait until it is in that state in its attempt 2
    <!-- session: NAME; times: hidden -->       leave out the time in front of each line
    <!-- session: NAME; hidden: COMMAND -->     first run a command that is not shown
    <!-- session: NAME; needs: MODULE -->       leave it as it is where there is no such module

Blocks of one session on one page share a folder and a home, in the order of the page. Files that the page shows are in
that folder: a block with `<!-- file: NAME -->` before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Session:
    """`changes` are made to files of the folder (file, old text, new text); `before` are commands that are not shown.

    `rig`: the racks are hosts with a real sshd (`rig.py`), which takes root and a minute; `troubles` says what is wrong
    with which of them.
    """

    changes: tuple[tuple[str, str, str], ...] = ()
    before: tuple[str, ...] = ()
    rig: bool = False
    troubles: tuple[tuple[str, str], ...] = ()


FLEET = "examples/fleet-9xnvl72.yaml"
# An imaginary rank ends after `run_s`, ten real seconds in the example; these pictures need a run that goes on, and a
# clock that leaves its controller time to rest.
_LASTING = (FLEET, "run_s: 600, speed: 60", "run_s: inf, speed: 6")
_HURRIED = ("examples/vla-8x64.yaml", "stop_grace: 2m", "stop_grace: 3")


def _befallen(*faults: str, spares: int = 1) -> Session:
    """`pretrain.yaml` on two racks of which a fault befalls a node, played to its end in no time."""
    lines = "\n".join(f"    - {fault}" for fault in faults)
    return Session(
        changes=(
            ("hall-1.yaml", "    - {at: 60, node: r01-n02, fault: power_cut}", lines),
            ("pretrain.yaml", "spares: 1", f"spares: {spares}"),
        ),
        before=("nvlaunch up pretrain.yaml -i hall-1.yaml -y --foreground",),
    )


def _lasting(session: Session) -> Session:
    """The same, in its own time and without an end."""
    slow = ("hall-1.yaml", "  run_s: 200\n", "  run_s: inf\n  speed: 20\n")
    return Session((*session.changes, slow), ("nvlaunch up pretrain.yaml -i hall-1.yaml -y -d",))


def _dark(nodes: Sequence[str]) -> list[str]:
    return [f"{{at: 40, node: {node}, fault: power_cut}}" for node in nodes]


SESSIONS = {
    "fleet": Session((_LASTING,)),
    "running": Session((_LASTING, _HURRIED), (f"nvlaunch up examples/vla-8x64.yaml -i {FLEET} -y -d",)),
    "queue": Session(
        (_LASTING,),
        (
            f"nvlaunch up nightly.yaml -i {FLEET} -y -d",
            f"nvlaunch up wide.yaml -i {FLEET} -y --queue",
            f"nvlaunch up sweep.yaml -i {FLEET} -y --queue",
        ),
    ),
    "defrag": Session(
        before=(
            "nvlaunch up eval.yaml -i hall-3.yaml -y -d",
            "nvlaunch up serve.yaml -i hall-3.yaml -y -d",
            "nvlaunch up pair.yaml -i hall-3.yaml -y --queue",
        ),
    ),
    "checks": Session(),
    "api": Session(((FLEET, "run_s: 600, speed: 60", "run_s: 600, speed: 1000"),)),
    "power-cut": _befallen("{at: 60, node: r01-n02, fault: power_cut}"),
    "program-fails": _befallen("{at: 60, node: r01-n02, fault: rank_fails, code: 1}"),
    "gpu-lost": _befallen("{at: 60, node: r02-n03, fault: gpu_lost}"),
    "no-spare": _befallen("{at: 60, node: r01-n02, fault: power_cut, duration: 300}", spares=0),
    "guide": Session(rig=True, troubles=(("r02-n02", "lost"),)),
    "doctor": Session(
        before=("nvlaunch inventory discover 'r01-n[01-03]' 'r02-n[01-03]' -o inventory.yaml -y",),
        rig=True,
        troubles=(("r01-n02", "lost"), ("r02-n01", "reset"), ("r02-n02", "idle"), ("r02-n03", "off")),
    ),
    "elastic-plan": Session(before=("nvlaunch drain 'r08-n[01-02]' -i hall-8.yaml --reason 'new cables' --yes",)),
    "elastic": Session(
        (("hall-8.yaml", "  run_s: 600\n", "  run_s: inf\n  speed: 20\n"),),
        ("nvlaunch up elastic.yaml -i hall-8.yaml -y -d",),
    ),
    "elastic-grows": Session(before=("nvlaunch up elastic.yaml -i hall-8.yaml -y --foreground",)),
    "half-a-rack": _lasting(_befallen(*_dark(("r01-n01", "r01-n02", "r01-n03")))),
}
