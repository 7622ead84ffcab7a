"""`inventory`: bring the one you have, ask the nodes for what it leaves out, compare, and hand it on."""

from __future__ import annotations

import json
import os
import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.file_diff import a_file, difference, give, standing, write
from launcher.cli.options import As, FleetFile, Output, Yes, home
from launcher.cli.output.console import clean, refuse, say, show, show_bytes, warn
from launcher.cli.plain import PlainCommand, PlainGroup
from launcher.errors import ExitCode, ProvisionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from launcher.admission.locate import Survey
    from launcher.core.model.inventory import Inventory, Node

OutFile = Annotated[
    Path | None, typer.Option("-o", "--out", metavar="FILE", callback=a_file, help="Where to; else stdout.")
]


class Target(Enum):
    """What an inventory can be written as."""

    SLURM_CONF = "slurm-conf"
    SLURM_YAML = "slurm-yaml"
    RAY_LABELS = "ray-labels"


def _kinds(incomplete: str) -> list[str]:
    """Return the kinds of inventory that begin so, for completion in a shell."""
    from launcher.config.importers.formats import InventoryFormat

    return [kind.value for kind in InventoryFormat if kind.value.startswith(incomplete)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    family = typer.Typer(rich_markup_mode=None)
    family.callback(cls=PlainGroup, invoke_without_command=True)(_inventory)
    family.command(name="import", cls=PlainCommand)(import_)
    for command in (discover, check, export):
        family.command(cls=PlainCommand)(command)
    app.add_typer(family, name="inventory")


def _inventory(context: typer.Context) -> None:
    """Import, discover, check or export an inventory.

    \b
    Example:
      nvlaunch inventory import topology.conf -o inventory.yaml
      nvlaunch inventory discover -i inventory.yaml
    """
    if context.invoked_subcommand is None:
        show(context.get_help())


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What other programs keep; `-` is stdin.")],
    kind: Annotated[
        str | None, typer.Option("--as", metavar="KIND", help="Its kind, if not found out.", autocompletion=_kinds)
    ] = None,
    out: OutFile = None,
    yes: Yes = False,
) -> None:
    """Make an inventory of what other programs keep.

    Reads Slurm's topology.conf, topology.yaml and `scontrol show
    topology`, maps of hosts to ClusterUUIDs, SkyPilot's node pools,
    dstack's SSH fleets, Ansible's inventories, hostfiles of MPI,
    DeepSpeed and Horovod, ~/.ssh/config, and Kubernetes nodes.
    Nothing is guessed about racks; all that is odd is named.

    \b
    Example:
      scontrol show topology | nvlaunch inventory import - -o inventory.yaml
      nvlaunch inventory import hosts --as hostfile
    """
    from launcher.cli.output.errors import mistake_text
    from launcher.config.importers.formats import InventoryFormat
    from launcher.config.importers.read import import_file
    from launcher.config.importers.write import inventory_text, rackless_message
    from launcher.config.inventory.read import parse_inventory

    known = [one.value for one in InventoryFormat]
    if kind is not None and kind not in known:
        refuse(f"no kind of inventory is named `{kind}`", hint=f"write one of {', '.join(f'`{one}`' for one in known)}")
    found = import_file(file, InventoryFormat(kind) if kind else None)
    text, more = inventory_text(found, out.stem if out else None)
    for remark in (*found.warnings, *more):
        warn(mistake_text(remark))
        if remark.hint:
            say(clean(f"hint: {remark.hint}"))
    fleet = parse_inventory(text, out or Path("inventory.yaml"))
    racks = {host.rack for host in found.hosts if host.rack is not None}
    say(clean(f"{found.title}: {_counted(len(fleet.nodes), 'node')}, {_counted(len(racks), 'rack')}"))
    if found.rackless:
        warn(clean(rackless_message(found)))
    give(text, out, yes=yes)


def discover(
    nodes: Annotated[
        list[str] | None, typer.Argument(metavar="NODES", help="Hosts, or ranges, for a new file; else those of `-i`.")
    ] = None,
    inventory: FleetFile = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", callback=a_file, help="Where to; else the file that was read."),
    ] = None,
    yes: Yes = False,
) -> None:
    """Ask the nodes for their locations and update the inventory.

    Writes racks (by chassis serial number), NVLink domains and trays.
    Shows a diff first, and keeps the comments of the file. Nodes stay
    in racks that have a name; only nodes under `unsorted` move.

    \b
    Example:
      nvlaunch inventory discover -i inventory.yaml
      nvlaunch inventory discover 'gpu-[001-072]' -o inventory.yaml
    """
    from launcher.config.inventory.amend import amended
    from launcher.config.inventory.read import parse_inventory
    from launcher.config.yaml.text_file import read_text
    from launcher.core.discovery.location import amend

    if nodes:
        before, path, text = "", out or Path("inventory.yaml"), _fresh(nodes, out)
    else:
        path = Path(_readable(inventory).source)
        before = text = read_text(path, what="inventory file")
    fleet = parse_inventory(text, path)
    found = _ask(fleet)
    _tell_silent(found)
    wanted = amend(fleet, found.told)
    for words in wanted.conflicts:
        warn(clean(words))
    after = amended(text, path, wanted) if wanted else text
    there = None if out is None else standing(out)
    if out is not None and there is not None:
        path, before = out, there
    if after == before:
        say(clean(f"{path}: unchanged: matches the reports of {_counted(len(found.told), 'node')}"))
        return
    show_bytes(difference(before, after, path).encode("utf-8", "replace"))
    if nodes and out is None:
        say("hint: write it with `-o FILE`")
        return
    write(after, out or path, f"write {out or path}?", yes=yes)


def check(inventory: FleetFile = None, output: As = Output.TEXT) -> None:
    """Compare an inventory with its nodes.

    Changes nothing. Exits with 4 if a value differs. Values that are
    missing in the file, or that nodes do not report, do not count.

    \b
    Example:
      nvlaunch inventory check -i inventory.yaml
    """
    from launcher.cli.output.inventory import check_json, check_text
    from launcher.core.discovery.diff import DifferenceKind, compare
    from launcher.store.domains import Domains

    fleet = _readable(inventory)
    found = _ask(fleet)
    differences = compare(fleet, found.told)
    left_out = {node.name for node in fleet.nodes if node.domain is None}
    reported = {name: one.domain for name, one in found.told.items() if one.domain and name in left_out}
    Domains(home()).keep(fleet.name, reported, time.time())
    if output is Output.JSON:
        show(json.dumps(check_json(fleet, found, differences), indent=2))
    else:
        show(check_text(fleet, found, differences))
    if any(one.kind is DifferenceKind.DIFFERS for one in differences):
        raise typer.Exit(ExitCode.REMOTE)


def export(
    target: Annotated[Target, typer.Option("--as", help="What to write.")],
    inventory: FleetFile = None,
    out: OutFile = None,
    yes: Yes = False,
) -> None:
    """Write an inventory as Slurm's topology, or Ray's labels.

    Racks become blocks, the levels above them a tree of switches.

    \b
    Example:
      nvlaunch inventory export --as slurm-yaml -i inventory.yaml
    """
    from launcher.config.inventory.read import find_inventory
    from launcher.config.inventory.slurm_export import topology_conf, topology_yaml

    fleet = _remembered(find_inventory(inventory, os.environ, home()))
    if target is Target.RAY_LABELS:
        give("".join(map(_labels_line(fleet.levels), fleet.nodes)), out, yes=yes)
        return
    made = topology_conf(fleet) if target is Target.SLURM_CONF else topology_yaml(fleet)
    for words in made.warnings:
        warn(clean(words))
    give(made.text, out, yes=yes)


def _labels_line(levels: Sequence[str]) -> Callable[[Node], str]:
    """Return what writes the Ray labels of a node as a line of YAML; a place to sort from is no rack."""
    from launcher.config.importers.write import quoted
    from launcher.core.discovery.location import is_unsorted
    from launcher.setup.ray import place_labels

    def line(node: Node) -> str:
        labels = place_labels(node, levels[:-1] if is_unsorted(node.rack) else levels)
        return f"{quoted(node.name)}: {json.dumps(labels, ensure_ascii=False)}\n"

    return line


def _counted(number: int, noun: str) -> str:
    from launcher.core.model.text import count

    return count(number, noun)


def _remembered(fleet: Inventory) -> Inventory:
    """Return an inventory with the domains that its nodes reported last, where it leaves them out."""
    from dataclasses import replace

    from launcher.store.domains import Domains

    known = Domains(home()).of(fleet.name)
    return replace(
        fleet, nodes=tuple(replace(node, domain=node.domain or known.get(node.name)) for node in fleet.nodes)
    )


def _readable(given: str | None) -> Inventory:
    """Return the inventory of machines that can be asked; SpecError for nodes that are pretended or imagined."""
    from launcher.cli.output.plan import fleet_text
    from launcher.config.inventory.read import find_inventory
    from launcher.core.model.inventory import Transport

    fleet = find_inventory(given, os.environ, home())
    if fleet.transport is not Transport.SSH:
        what = f"nodes of `transport: {fleet.transport.value}` have no GPU driver that reports their location"
        refuse(what, where=fleet.source, hint="choose an inventory of `transport: ssh` with `-i`")
    say(fleet_text(fleet))
    return fleet


def _fresh(words: list[str], out: Path | None) -> str:
    """Return the text of an inventory of these hosts, none of which has a rack yet."""
    from launcher.config.importers.formats import InventoryFormat
    from launcher.config.importers.read import import_text
    from launcher.config.importers.write import inventory_text

    if out is not None and out.exists():
        refuse(f"`{out}` already exists", hint=f"update it with `discover -i {out}`, or choose another file with `-o`")
    found = import_text("\n".join(words), "NODES", InventoryFormat.HOSTFILE)
    lines = inventory_text(found, out.stem if out else "inventory")[0].splitlines(keepends=True)
    return "".join(("# Made by `nvlaunch inventory discover`.\n", *lines[2:]))


def _ask(fleet: Inventory) -> Survey:
    """Return the locations that the nodes report; ProvisionError if no node reports one."""
    from launcher.admission.locate import survey
    from launcher.cli.output.progress import Asking
    from launcher.drive.control import open_prober

    prober = open_prober(home(), fleet)
    try:
        with Asking(fleet) as asking:
            found = survey(fleet.nodes, prober, asking)
    finally:
        prober.close()
    if found.blind:
        raise ProvisionError("no node reported its location", outcomes=found.folded())
    return found


def _tell_silent(found: Survey) -> None:
    for names, why in found.folded():
        warn(clean(f"{names}: not updated: {why}"))
