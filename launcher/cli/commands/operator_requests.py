"""`drain`, `undrain`, `confirm-dead`, `resume`, `relocate`: what operators ask of nodes and runs while these go on."""

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.commands.doctor import HEAD_WORD
from launcher.cli.options import FleetFile, RunWord, Yes, home
from launcher.cli.output.console import agree, clean, refuse, say, warn
from launcher.cli.plain import PlainCommand
from launcher.core.model.nodeset import fold
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.text import count

if TYPE_CHECKING:
    from launcher.cli.node_arguments import Named
    from launcher.core.model.nodeset import NodeName
    from launcher.core.model.run import RunId
    from launcher.store.rows import RunRow
    from launcher.store.store import Store

Nodes = Annotated[list[str], typer.Argument(metavar="NODE", help="Nodes, ranges such as `r07-n[01-04]`, or racks.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(cls=PlainCommand)(drain)
    app.command(cls=PlainCommand)(undrain)
    app.command("confirm-dead", cls=PlainCommand)(confirm_dead)
    app.command(cls=PlainCommand)(resume)
    app.command(cls=PlainCommand)(relocate)


def drain(
    nodes: Nodes,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for people.")] = "drained by order",
    inventory: FleetFile = None,
    yes: Yes = False,
) -> None:
    """Take nodes out of service.

    No new work is placed on them. A run that has one gets the task's
    stop signal, its grace to write a checkpoint, and a spare in its
    place; without a spare it stays where it is, and says so.

    \b
    Example:
      nvlaunch drain r07-n03 --reason 'bad NVLink, ticket 17'
    """
    from launcher.cli.node_arguments import author, named
    from launcher.store.ledger import Drain
    from launcher.store.store import Store

    store = Store(home())
    meant = named(store, nodes, inventory)
    driven = _tell_use(store, meant)
    agree(f"drain {fold(meant.nodes)} of `{meant.fleet.name}`?", yes=yes)
    order = Drain(node=meant.nodes[0], reason=reason, at=time.time(), by=author())
    store.ledger.drain(meant.fleet.name, meant.nodes, order)
    say(f"{count(len(meant.nodes), 'node')} of `{meant.fleet.name}` drained: {fold(meant.nodes)}")
    _warn_undriven(driven)


def undrain(nodes: Nodes, inventory: FleetFile = None) -> None:
    """Put drained nodes in service again.

    \b
    Example:
      nvlaunch undrain r07-n03
    """
    from launcher.cli.node_arguments import author, named
    from launcher.store.store import Store

    store = Store(home())
    meant = named(store, nodes, inventory)
    lifted = store.ledger.undrain(meant.fleet.name, meant.nodes, by=author(), at=time.time())
    if lifted:
        say(f"in service again: {fold(lifted)}")
    written = [node.name for node in meant.fleet.nodes if node.name in meant.nodes and node.drained is not None]
    if written:
        warn(f"{fold(written)}: drained in {meant.fleet.source}, and stays so until `drained:` is removed there")
    elif not lifted:
        say("none of them was drained")


def confirm_dead(nodes: Nodes, inventory: FleetFile = None, yes: Yes = False) -> None:
    """Vouch that nodes out of reach are dead.

    For a node that cannot be reached, and of which nothing can prove
    that it is off; `head` is the machine of Ray heads. Its rank starts
    elsewhere at once. If it does run, its old rank and the new one may
    both write to what they share.

    \b
    Example:
      nvlaunch confirm-dead r07-n03
    """
    from launcher.cli.node_arguments import author, named
    from launcher.store.store import Store

    store = Store(home())
    meant = named(store, nodes, inventory, head=True)
    holders = store.holders(meant.fleet.name)
    dead: list[tuple[RunId, str]] = [(holders[node], node) for node in meant.nodes if node in holders]
    if meant.head:
        dead += [(run, HEAD_WORD) for run in dict.fromkeys(holders.values())]
    if not dead:
        refuse(f"no run has {fold(nodes)}", hint="`nvlaunch status RUN` lists the nodes of a run")
    driven = _tell_use(store, meant)
    names = fold(name for _, name in dead)
    _warn_seen(driven, {name for _, name in dead})
    say("its rank starts elsewhere at once; if it still runs, two of the same rank may write to the same checkpoint")
    say("say yes only where its power is off, or where it can reach neither storage nor network")
    agree(f"is {names} dead?", yes=yes)
    for run, name in dead:
        store.orders.give(run, RequestKind.CONFIRM_DEAD, subject=name, by=author(), at=time.time())
    say(f"noted: {names}")
    _warn_undriven(driven)


def resume(run: RunWord) -> None:
    """Let a run go on that holds.

    A run holds where half a rack is sick at once, and nobody can say
    which node is to blame.

    \b
    Example:
      nvlaunch resume vla-pretrain
    """
    from launcher.cli.node_arguments import author
    from launcher.core.model.run import RunState
    from launcher.store.store import Store

    store = Store(home())
    row = _live(store, run)
    store.orders.give(row.id, RequestKind.RESUME, by=author(), at=time.time())
    if row.state is RunState.ON_HOLD:
        say(f"`{row.name}` was asked to go on; `nvlaunch watch {row.name}` follows it")
    else:
        say(f"`{row.name}` does not hold, so nothing changes: {row.state.value}")
    _drive(row)


def relocate(
    part: Annotated[
        str, typer.Argument(metavar="RUN/SLICE", help="A slice, as in `job/0`; `job/GROUP.s0` where there are groups.")
    ],
    yes: Yes = False,
) -> None:
    """Move a whole slice to another rack.

    Its ranks and all that restart with them start again from their
    checkpoint. Where no other place has room, nothing happens.

    \b
    Example:
      nvlaunch relocate vla-pretrain/3
    """
    from launcher.cli.node_arguments import author
    from launcher.cli.targets import slice_named
    from launcher.store.store import Store

    name, slash, word = part.partition("/")
    if not slash or not word:
        refuse(f"`{part}` names no slice", hint="write RUN/SLICE, as in `vla-pretrain/3`")
    store = Store(home())
    row = _live(store, name)
    key = slice_named(store.load(row.id)[0], word, before=f"{row.name}/").key
    agree(f"move slice `{key}` of `{row.name}` to another place?", yes=yes)
    store.orders.give(row.id, RequestKind.RELOCATE, subject=key, by=author(), at=time.time())
    say(f"slice `{key}` of `{row.name}` moves; `nvlaunch watch {row.name}` follows it")
    _drive(row)


def _tell_use(store: "Store", meant: "Named") -> "list[RunRow]":
    """Say what the nodes are to runs; return those runs."""
    from launcher.cli.node_arguments import slot_words

    holders = store.holders(meant.fleet.name)
    runs = {run: store.load(run) for run in dict.fromkeys(holders[node] for node in meant.nodes if node in holders)}
    alike: dict[str, list[NodeName]] = {}
    for node in meant.nodes:
        if node in holders:
            alike.setdefault(slot_words(*runs[holders[node]], node), []).append(node)
    for words, names in alike.items():
        say(clean(f"{fold(names)} {words}"))
    return [store.find(run) for run in runs]


def _warn_seen(rows: "list[RunRow]", names: set[str]) -> None:
    """Nobody need vouch for a node that its controller sees: the kernel goes by what it sees."""
    from launcher.store.rows import readable

    for row in rows:
        with readable(row.id):
            ranks = [(rank["node"], rank["state"]) for rank in json.loads(row.snapshot)["ranks"]]
        if seen := sorted(node for node, state in ranks if node in names and state == "running"):
            warn(f"the controller of `{row.name}` sees {fold(seen)}, where ranks run: nothing happens while it does")


def _warn_undriven(rows: "list[RunRow]") -> None:
    for row in rows:
        if not (row.owner and row.owner.alive()):
            warn(f"no controller looks after `{row.name}`; `nvlaunch watch {row.name}` starts one")


def _live(store: "Store", word: str) -> "RunRow":
    row = store.find(word)
    if row.ended is not None:
        refuse(f"`{row.name}` is over: {row.state.value}", hint="`nvlaunch up FILE` starts it anew")
    return row


def _drive(row: "RunRow") -> None:
    from launcher.cli.follow import start_driving

    start_driving(home(), row)
