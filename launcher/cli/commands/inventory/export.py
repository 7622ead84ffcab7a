"""`inventory export`: an inventory as Slurm's topology, or Ray's labels."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.file_diff import OutFile, write_output
from launcher.cli.options import FleetFile, Yes
from launcher.cli.output.console import clean, warn
from launcher.store.home import home

if TYPE_CHECKING:
    from launcher.core.model.inventory import Inventory, Node


class ExportFormat(Enum):
    """The formats that an inventory can be exported to."""

    SLURM_CONF = "slurm-conf"
    SLURM_YAML = "slurm-yaml"
    RAY_LABELS = "ray-labels"


def export(
    target: Annotated[ExportFormat, typer.Option("--as", help="Output format.")],
    inventory: FleetFile = None,
    out: OutFile = None,
    yes: Yes = False,
) -> None:
    """Export an inventory for Slurm or Ray.

    For Slurm, racks become blocks, and levels above them switches.

    \b
    Example:
      nvlaunch inventory export --as slurm-yaml -i inventory.yaml
    """
    from launcher.config.inventory.read import find_inventory
    from launcher.config.inventory.slurm_export import topology_conf, topology_yaml

    fleet = _with_reported_domains(find_inventory(inventory, os.environ, home()))
    if target is ExportFormat.RAY_LABELS:
        write_output("".join(map(_labels_line(fleet.levels), fleet.nodes)), out, yes=yes)
        return
    made = topology_conf(fleet) if target is ExportFormat.SLURM_CONF else topology_yaml(fleet)
    for remark in made.warnings:
        warn(clean(remark))
    write_output(made.text, out, yes=yes)


def _labels_line(levels: Sequence[str]) -> "Callable[[Node], str]":
    """Return a function that formats the Ray labels of a node as a line of YAML.

    `unsorted` is not a rack.
    """
    from launcher.config.importers.write import quoted
    from launcher.core.discovery.location import is_unsorted
    from launcher.setup.ray import place_labels

    def line(node: "Node") -> str:
        labels = place_labels(node, levels[:-1] if is_unsorted(node.rack) else levels)
        return f"{quoted(node.name)}: {json.dumps(labels, ensure_ascii=False)}\n"

    return line


def _with_reported_domains(fleet: "Inventory") -> "Inventory":
    """Return an inventory with reported domains.

    For nodes that it lists without a domain, the last report.
    """
    from launcher.store.store import Store

    known = Store(home()).domains.of(fleet.name)
    return replace(
        fleet, nodes=tuple(replace(node, domain=node.domain or known.get(node.name)) for node in fleet.nodes)
    )
