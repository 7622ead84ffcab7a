"""`hosts rekey`: accept a changed SSH host key, after a person has compared it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import FleetFile, Yes
from launcher.cli.output.console import agree, clean, say, show
from launcher.cli.plain import PlainCommand, PlainGroup
from launcher.errors import ProvisionError, RemoteError, refuse
from launcher.store.home import home

if TYPE_CHECKING:
    from launcher.core.model.inventory import Inventory
    from launcher.transport.ssh.rekey import PresentedKey, Rekeying


def register(app: typer.Typer) -> None:
    """Add the commands."""
    family = typer.Typer(rich_markup_mode=None)
    family.callback(cls=PlainGroup, invoke_without_command=True)(_hosts)
    family.command(cls=PlainCommand)(rekey)
    app.add_typer(family, name="hosts")


def _hosts(context: typer.Context) -> None:
    """Manage SSH host keys.

    \b
    Example:
      nvlaunch hosts rekey r07-n03 -i inventory.yaml
    """
    if context.invoked_subcommand is None:
        show(context.get_help())


def rekey(
    nodes: Annotated[
        list[str], typer.Argument(metavar="NODE", help="Nodes, ranges such as `r07-n[01-04]`, or jump hosts.")
    ],
    inventory: FleetFile = None,
    yes: Yes = False,
) -> None:
    """Accept changed SSH host keys.

    For machines that were reinstalled or replaced. Compare the new
    fingerprint with the one on the machine's console before you agree:
    `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`.

    \b
    Example:
      nvlaunch hosts rekey r07-n03 -i inventory.yaml
    """
    from launcher.cli.node_arguments import expand_words
    from launcher.config.inventory.read import find_inventory
    from launcher.transport.ssh.rekey import Rekeying

    fleet = find_inventory(inventory, os.environ, home())
    keys = Rekeying(home())
    try:
        seen = _look(keys, fleet, expand_words(nodes))
        changed = {word: shown for word, shown in seen.items() if not isinstance(shown, RemoteError) and not shown.good}
        for word, shown in seen.items():
            _tell(word, shown)
        if changed:
            agree(f"accept {'this key' if len(changed) == 1 else f'these {len(changed)} keys'}?", yes=yes)
        for word, shown in changed.items():
            keys.accept(shown)
            say(clean(f"{word}: accepted {shown.key.fingerprint} into {keys.own}"))
            for path in shown.foreign(keys.own):
                say(clean(f"hint: `ssh-keygen -R {shown.name} -f {path}` removes the old key from your own file"))
    finally:
        keys.close()
    failed = tuple((word, error.message) for word, error in seen.items() if isinstance(error, RemoteError))
    if failed:
        hints = tuple(hint for error in seen.values() if isinstance(error, RemoteError) for hint in error.hints)
        raise ProvisionError(f"cannot read {len(failed)} of {len(seen)} host keys", outcomes=failed, hints=hints)


def _look(keys: Rekeying, fleet: Inventory, words: list[str]) -> dict[str, PresentedKey | RemoteError]:
    looks = {word: keys.find(fleet, word) for word in words}
    strangers = [word for word, look in looks.items() if look is None]
    if strangers:
        refuse(
            f"no machine is named {', '.join(f'`{word}`' for word in strangers)}",
            where=fleet.source,
            hint="`nvlaunch racks` lists the nodes",
        )
    known = {word: look for word, look in looks.items() if look is not None}
    seen = dict(zip(known, keys.look(list(known.values())), strict=True))
    pinned = [word for word, shown in seen.items() if not isinstance(shown, RemoteError) and _conflicts(shown)]
    for word in pinned:
        _tell(word, seen[word])
    if pinned:
        refuse(
            f"the inventory pins another key for {', '.join(f'`{word}`' for word in pinned)}",
            where=fleet.source,
            hint="change `host_key` there",
        )
    return seen


def _conflicts(shown: PresentedKey) -> bool:
    return shown.pin is not None and not shown.good


def _tell(word: str, shown: PresentedKey | RemoteError) -> None:
    if isinstance(shown, RemoteError):
        return
    if shown.good:
        say(clean(f"{word}: {shown.key.fingerprint} is already known"))
        return
    for path, fingerprint in (*shown.known, *((("the inventory", shown.pin),) if shown.pin else ())):
        say(clean(f"{word}: old {fingerprint} ({path})"))
    say(clean(f"{word}: new {shown.key.fingerprint} ({shown.key.kind})"))
