"""Powers a machine off by the inventory's `fence_command`, or asks by its `power_query` whether it is; from here."""

import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from launcher.core.model.actions import PowerOff, PowerQuery
from launcher.core.model.inventory import Access, Node
from launcher.core.model.receipt import Answer, Result
from launcher.core.model.run import Run
from launcher.core.model.secret_words import secret_values, without_own_words
from launcher.transport.local import LocalShell
from launcher.transport.ssh.operation import tail
from launcher.transport.upload import bundle

FENCE_S = 60.0
"""Seconds in which a power switch has answered; a BMC takes ten and more where it is busy."""

QUERY_S = 10.0
"""Seconds for `power_query`: later than that, the node is given up without it."""

_HERE = Access(address="localhost")
_FIELD = re.compile(r"\{(node|address|rack)\}")


def perform(run: Run, action: PowerOff | PowerQuery, node: Node, home: Path) -> Answer:
    """Run the command of an inventory for an action; `home` has the secrets of the run, which are not shown."""
    names = {name for group in run.task.groups for name in run.task.secrets_of(group)}
    secrets = bundle.user_secrets(home, run.id, names).values()
    if isinstance(action, PowerOff):
        return power_off(run.fleet.fence_command, node, secrets)
    return power_query(run.fleet.power_query, node, secrets)


def power_off(command: str | None, node: Node, secrets: Iterable[str] = ()) -> Answer:
    """Run an inventory's `fence_command` for a node, on this machine.

    POWERED_OFF where it ended with 0; RemoteError where it cannot be started or does not end in time. What it prints is
    kept in the journal: so its own words, of which one is often a password, are taken out, and `secrets`.
    """
    return _off("fence_command", command, node, secrets, FENCE_S)


def power_query(command: str | None, node: Node, secrets: Iterable[str] = ()) -> Answer:
    """Run an inventory's `power_query` for a node, on this machine; the answer is that of `power_off`."""
    return _off("power_query", command, node, secrets, QUERY_S)


def _off(key: str, command: str | None, node: Node, secrets: Iterable[str], timeout: float) -> Answer:
    if command is None:
        return Answer(result=Result.FAILED, message=f"the inventory has no `{key}`")
    argv, names = words(command, node), frozenset((str(node.name), node.access.address, str(node.rack)))
    ended = LocalShell().run(_HERE, argv, timeout=timeout)
    hidden = (*secrets, *secret_values(os.environ))
    said = without_own_words(tail(ended.stdout + b"\n" + ended.stderr), argv, hidden, names)
    if ended.status == 0:
        return Answer(result=Result.POWERED_OFF, tail=said)
    last = f": {said[-1]}" if said else ""
    return Answer(result=Result.FAILED, message=f"`{key}` ended with {ended.status}{last}", tail=said)


def words(command: str, node: Node) -> tuple[str, ...]:
    """Return a command's words with the node's fields in their places.

    The command is split first and no shell ever sees it: a name with spaces or quotes in it stays within its word.
    """
    fields = {"node": node.name, "address": node.access.address, "rack": node.rack}
    return tuple(_FIELD.sub(lambda found: fields[found[1]], word) for word in shlex.split(command))
