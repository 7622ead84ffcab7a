"""What people do on an imaginary node: commands and files that are made up."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath

from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import Run
from launcher.core.model.run_index import index_of
from launcher.errors import RemoteError
from launcher.ports import Command, Hear, Stream, Take
from launcher.sim import node_acts
from launcher.sim.fleet import SimFleet

PART = 1 << 16


def execute(fleet: SimFleet, run: Run, node: NodeName, command: Command, hear: Hear, now: float) -> int:
    """Pretend to run a command: it prints its variables, and succeeds.

    RemoteError where no agent runs.
    """
    life = fleet.life(node)
    if refusal := node_acts.refusal(life, run, node, "exec", now):
        raise RemoteError(refusal.message, node=node, stage="exec")
    hear(Stream.OUT, "".join(f"{line}\n" for line in _lines(run, node, command)).encode())
    return 0


def _lines(run: Run, node: NodeName, command: Command) -> Iterator[str]:
    yield f"NVLAUNCH_RUN={run.name}"
    yield f"NVLAUNCH_RACK={index_of(run).nodes[node].rack}"
    if command.member is not None:
        member = node_acts.member(run, command.member)
        yield f"NVLAUNCH_GROUP={member.group}"
        yield f"NVLAUNCH_NODE_RANK={member.rank}"
        yield f"NVLAUNCH_SLICE={member.slice}"


def fetch(fleet: SimFleet, node: NodeName, path: str, take: Take, now: float) -> tuple[str, ...]:
    """Pretend that a path is a file, which holds its own name.

    RemoteError where the node does not answer.
    """
    if not fleet.life(node).reachable(now):
        raise RemoteError(f"no answer from `{node}`", node=node, stage="fetch")
    packed, content = io.BytesIO(), f"{path} of {node}\n".encode()
    with tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        entry = tarfile.TarInfo(PurePosixPath(path).name or "root")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    data = packed.getvalue()
    for at in range(0, len(data), PART):
        take(data[at : at + PART])
    return ()
