"""`inventory discover`: complete an inventory from what its nodes report."""

from pathlib import Path
from typing import Annotated

import typer

from launcher.cli.commands.inventory.machines import ask, find_machines
from launcher.cli.file_diff import current_text, difference, regular_file, write
from launcher.cli.options import FleetFile, Yes
from launcher.cli.output.console import clean, say, show_bytes, warn
from launcher.errors import refuse


def discover(
    nodes: Annotated[
        list[str] | None,
        typer.Argument(metavar="NODES", help="Hosts or ranges for a new file (default: those of `-i`)."),
    ] = None,
    inventory: FleetFile = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            callback=regular_file,
            help="File to write (default: the one that was read).",
        ),
    ] = None,
    yes: Yes = False,
) -> None:
    """Complete an inventory from its nodes.

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
    from launcher.core.model.text import count

    if nodes:
        before, path, text = "", out or Path("inventory.yaml"), _new_text(nodes, out)
    else:
        path = Path(find_machines(inventory).source)
        before = text = read_text(path, what="inventory file")
    fleet = parse_inventory(text, path)
    found = ask(fleet)
    for names, why in found.folded():
        warn(clean(f"{names}: not updated: {why}"))
    wanted = amend(fleet, found.told)
    for conflict in wanted.conflicts:
        warn(clean(conflict))
    after = amended(text, path, wanted) if wanted else text
    existing = None if out is None else current_text(out)
    if out is not None and existing is not None:
        path, before = out, existing
    if after == before:
        say(clean(f"{path}: unchanged: matches the reports of {count(len(found.told), 'node')}"))
        return
    show_bytes(difference(before, after, path).encode("utf-8", "replace"))
    if nodes and out is None:
        say("hint: write it with `-o FILE`")
        return
    write(after, out or path, f"write {out or path}?", yes=yes)


def _new_text(words: list[str], out: Path | None) -> str:
    """Return the text of an inventory of these hosts, without racks."""
    from launcher.config.importers.formats import InventoryFormat
    from launcher.config.importers.read import import_text
    from launcher.config.importers.write import inventory_text

    if out is not None and out.exists():
        refuse(f"`{out}` already exists", hint=f"update it with `discover -i {out}`, or choose another file with `-o`")
    found = import_text("\n".join(words), "NODES", InventoryFormat.HOSTFILE)
    lines = inventory_text(found, out.stem if out else "inventory")[0].splitlines(keepends=True)
    return "".join(("# Made by `nvlaunch inventory discover`.\n", *lines[2:]))
