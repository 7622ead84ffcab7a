"""`inventory import`: read the inventory of another program."""

from pathlib import Path
from typing import Annotated

import typer

from launcher.cli.file_diff import OutFile, write_output
from launcher.cli.options import Yes
from launcher.cli.output.console import clean, say, warn
from launcher.errors import refuse


def _kinds(incomplete: str) -> list[str]:
    """Return the formats of inventories that begin with a text, for shell completion."""
    from launcher.config.importers.formats import InventoryFormat

    return [kind.value for kind in InventoryFormat if kind.value.startswith(incomplete)]


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File of another program; `-` for stdin.")],
    kind: Annotated[
        str | None,
        typer.Option("--as", metavar="FORMAT", help="Format of the file (default: detected).", autocompletion=_kinds),
    ] = None,
    out: OutFile = None,
    yes: Yes = False,
) -> None:
    """Import the inventory of another program.

    Reads Slurm's topology.conf, topology.yaml and `scontrol show
    topology`, maps of hosts to ClusterUUIDs, node pools of SkyPilot, SSH
    fleets of dstack, inventories of Ansible, hostfiles of MPI, DeepSpeed
    and Horovod, ~/.ssh/config, and Kubernetes nodes. Racks are not
    guessed; doubtful lines are reported.

    \b
    Example:
      scontrol show topology | nvlaunch inventory import - -o inventory.yaml
      nvlaunch inventory import hosts --as hostfile
    """
    from launcher.cli.output.errors import warning_text
    from launcher.config.importers.formats import InventoryFormat
    from launcher.config.importers.read import import_file
    from launcher.config.importers.write import inventory_text, rackless_message
    from launcher.config.inventory.read import parse_inventory
    from launcher.core.model.text import count

    known = [one.value for one in InventoryFormat]
    if kind is not None and kind not in known:
        refuse(f"no inventory format is named `{kind}`", hint=f"write one of {', '.join(f'`{one}`' for one in known)}")
    found = import_file(file, InventoryFormat(kind) if kind else None)
    text, more = inventory_text(found, out.stem if out else None)
    for remark in (*found.warnings, *more):
        say(warning_text(remark))
    fleet = parse_inventory(text, out or Path("inventory.yaml"))
    racks = {host.rack for host in found.hosts if host.rack is not None}
    say(clean(f"{found.title}: {count(len(fleet.nodes), 'node')}, {count(len(racks), 'rack')}"))
    if found.rackless:
        warn(clean(rackless_message(found)))
    write_output(text, out, yes=yes)
