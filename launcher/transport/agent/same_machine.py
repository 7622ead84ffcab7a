"""A lease that the run itself holds under another name: two nodes of the inventory are one machine.

The boot id proves it. A machine id does not: clones of one image share it.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from launcher.core.model.nodeset import fold
from launcher.core.model.receipt import Answer, Result
from launcher.errors import RemoteError
from launcher.transport.agent.client import AgentClient

BOOT_ID = "/proc/sys/kernel/random/boot_id"
ASK_S = 10.0
FAN_OUT = 64


def answer(client: AgentClient, others: Sequence[AgentClient]) -> Answer:
    """Return why a node's lease is held by its own run: which nodes are the same machine, or share a lease file."""
    own = _boot_id(client)
    with ThreadPoolExecutor(FAN_OUT, thread_name_prefix="boot-id") as pool:
        found = dict(zip((one.name for one in others), pool.map(_boot_id, others), strict=True))
    same = [name for name, boot in found.items() if boot is not None and boot == own]
    if same:
        names = fold([client.name, *same])
        message = f"{names} are one machine (equal boot ids): remove all but one of them from the inventory"
    else:
        message = (
            "its lease is held by this run under another name, on a machine with another boot id:"
            " set `lease_path` to a file on a disk of the machine's own"
        )
    return Answer(result=Result.FAILED, message=message, lasting=True)


def _boot_id(client: AgentClient) -> str | None:
    try:
        ended = client.shell.run(client.access, ("cat", BOOT_ID), timeout=ASK_S)
    except RemoteError:
        return None
    return ended.stdout.decode(errors="replace").strip() or None
