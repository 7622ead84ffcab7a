"""Powers a machine off by the inventory's `fence_command`, from here."""

import os
import re
import shlex
from collections.abc import Iterable

from launcher.core.model.inventory import Access, Node
from launcher.core.model.receipt import Answer, Result
from launcher.core.model.secret_words import secret_values, without_own_words
from launcher.transport.local import LocalShell
from launcher.transport.ssh.operation import tail

FENCE_S = 60.0
"""Seconds in which a power switch has answered; a BMC takes ten and more where it is busy."""

_HERE = Access(address="localhost")
_FIELD = re.compile(r"\{(node|address|rack)\}")


def power_off(command: str | None, node: Node, secrets: Iterable[str] = ()) -> Answer:
    """Run an inventory's `fence_command` for a node, on this machine.

    POWERED_OFF where it ended with 0; RemoteError where it cannot be started or does not end in time. What it prints is
    kept in the journal: so its own words, of which one is often a password, are taken out, and `secrets`.
    """
    if command is None:
        return Answer(result=Result.FAILED, message="the inventory has no `fence_command`")
    argv, names = words(command, node), frozenset((str(node.name), node.access.address, str(node.rack)))
    ended = LocalShell().run(_HERE, argv, timeout=FENCE_S)
    hidden = (*secrets, *secret_values(os.environ))
    said = without_own_words(tail(ended.stdout + b"\n" + ended.stderr), argv, hidden, names)
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
