"""Powers a machine off by the inventory's `fence_command`, from here."""

import re
import shlex

from launcher.core.model.inventory import Access, Node
from launcher.core.model.receipt import Answer, Result
from launcher.transport.local import LocalShell
from launcher.transport.ssh.operation import tail

FENCE_S = 60.0
"""Seconds in which a power switch has answered; a BMC takes ten and more where it is busy."""

_HERE = Access(address="localhost")
_FIELD = re.compile(r"\{(node|address|rack)\}")


def power_off(command: str | None, node: Node) -> Answer:
    """Run an inventory's `fence_command` for a node, on this machine.

    POWERED_OFF where it ended with 0; RemoteError where it cannot be started or does not end in time.
    """
    if command is None:
        return Answer(result=Result.FAILED, message="the inventory has no `fence_command`")
    ended = LocalShell().run(_HERE, words(command, node), timeout=FENCE_S)
    said = tail(ended.stdout + b"\n" + ended.stderr)
    if ended.status == 0:
        return Answer(result=Result.POWERED_OFF, tail=said)
    last = f": {said[-1]}" if said else ""
    return Answer(result=Result.FAILED, message=f"`fence_command` ended with {ended.status}{last}", tail=said)


def words(command: str, node: Node) -> tuple[str, ...]:
    """Return a command's words with the node's fields in their places.

    The command is split first and no shell ever sees it: a name with spaces or quotes in it stays within its word.
    """
    fields = {"node": node.name, "address": node.access.address, "rack": node.rack}
    return tuple(_FIELD.sub(lambda found: fields[found[1]], word) for word in shlex.split(command))
