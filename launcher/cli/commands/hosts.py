"""`hosts rekey`: what to do with a machine whose host key has changed, by word of a person."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import FleetFile, Yes, home
from launcher.cli.output.console import agree, clean, refuse, say
from launcher.cli.plain import PlainCommand, PlainGroup
from launcher.errors import ProvisionError, RemoteError

if TYPE_CHECKING:
    from launcher.core.model.inventory import Inventory
    from launcher.transport.ssh.rekey import Rekeying, Shown


def register(app: typer.Typer) -> None:
    """Add the commands."""
    family = typer.Typer(rich_markup_mode=None)
    family.callback(cls=PlainGroup, invoke_without_command=True)(_hosts)
    family.command(cls=PlainCommand)(rekey)
    app.add_typer(family, name="hosts")


def _hosts(context: typer.Context) -> None:
    """Look after the host keys of machines.

    \b
    Example:
      nvlaunch hosts rekey r07-n03 -i inventory.yaml
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


def rekey(
    nodes: Annotated[list[str], typer.Argument(metavar="NODE", help="Nodes, `r07-n[01-04]`; also jump hosts.")],
    inventory: FleetFile = None,
    yes: Yes = False,
) -> None:
    """Accept the changed host keys of machines.

    For machines that were re-imaged or replaced. Compare the new
    fingerprint with the machine's own before you agree: it shows it
    on its console by `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`.

    \b
    Example:
      nvlaunch hosts rekey r07-n03 -i inventory.yaml
    """
    from launcher.config.inventory.read import find_inventory
    from launcher.transport.ssh.rekey import Rekeying

    fleet = find_inventory(inventory, os.environ, home())
    keys = Rekeying(home())
    try:
        seen = _look(keys, fleet, _expanded(nodes))
        changed = {word: shown for word, shown in seen.items() if not isinstance(shown, RemoteError) and not shown.good}
        for word, shown in seen.items():
            _tell(word, shown)
        if changed:
            agree(f"accept {'this key' if len(changed) == 1 else f'these {len(changed)} keys'}?", yes=yes)
        for word, shown in changed.items():
            keys.accept(shown)
            say(clean(f"{word}: {shown.key.fingerprint} is known now, from {keys.own}"))
            for path in shown.foreign(keys.own):
                say(clean(f"hint: `ssh-keygen -R {shown.name} -f {path}` removes the old one from your own file"))
    finally:
        keys.close()
    failed = tuple((word, error.message) for word, error in seen.items() if isinstance(error, RemoteError))
    if failed:
        hints = tuple(hint for error in seen.values() if isinstance(error, RemoteError) for hint in error.hints)
        raise ProvisionError(f"{len(failed)} of {len(seen)} host keys cannot be seen", outcomes=failed, hints=hints)


def _expanded(words: list[str]) -> list[str]:
    from launcher.core.model.nodeset import expand

    try:
        return list(dict.fromkeys(name for word in words for name in expand(word)))
    except ValueError as error:
        refuse(str(error), hint="nodes read `r07-n03` or `r07-n[01-04]`")


def _look(keys: Rekeying, fleet: Inventory, words: list[str]) -> dict[str, Shown | RemoteError]:
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
            hint="write the new one as `host_key` there",
        )
    return seen


def _conflicts(shown: Shown) -> bool:
    return shown.pin is not None and not shown.good


def _tell(word: str, shown: Shown | RemoteError) -> None:
    if isinstance(shown, RemoteError):
        return
    if shown.good:
        say(clean(f"{word}: {shown.key.fingerprint} is known already"))
        return
    for path, fingerprint in (*shown.known, *((("the inventory", shown.pin),) if shown.pin else ())):
        say(clean(f"{word}: old {fingerprint} ({path})"))
    say(clean(f"{word}: new {shown.key.fingerprint} ({shown.key.kind})"))
