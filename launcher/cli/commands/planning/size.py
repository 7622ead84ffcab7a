"""`size`: how large the slices of a job should be, and how many spares they need."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import As, Env, EnvFile, FleetFile, Output, Secret
from launcher.cli.output.console import clean, say, show, warn
from launcher.cli.plain import PlainCommand
from launcher.core.model.text import seconds_of
from launcher.errors import refuse
from launcher.store.home import home

if TYPE_CHECKING:
    from launcher.admission.slice_sizes import SizeReport
    from launcher.core.planner.sizing import FleetShape

MAX_GPUS = 10_000_000
"""The most GPUs of a job or an imaginary fleet."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(size)


def _rates(incomplete: str) -> list[str]:
    """Return the names of rates that begin with a text, for shell completion."""
    return [name for name in _known_rates() if name.startswith(incomplete)]


def _known_rates() -> tuple[str, ...]:
    from launcher.admission.slice_sizes import INCIDENTS
    from launcher.core.planner.faults import PUBLISHED

    return (*PUBLISHED, INCIDENTS)


def size(
    file: Annotated[Path | None, typer.Argument(metavar="TASK", help="Task file (YAML) of the job.")] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", min=1, help="GPUs of the job, without spares.")] = None,
    inventory: FleetFile = None,
    racks: Annotated[int | None, typer.Option("--racks", min=1, help="Racks of an imaginary fleet.")] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, help="Nodes of each imaginary rack (default: 18).")
    ] = None,
    gpus_per_node: Annotated[
        int | None, typer.Option("--gpus-per-node", min=1, help="GPUs of each imaginary node (default: 4).")
    ] = None,
    faults: Annotated[
        str | None,
        typer.Option(
            "--faults",
            metavar="RATE",
            help="Rate of faults: llama-3 (default), rsc-1, rsc-2, or `incidents` for what the inventory had.",
            autocompletion=_rates,
        ),
    ] = None,
    mtbf: Annotated[
        str | None, typer.Option("--mtbf", metavar="TIME", help="Mean time between faults of a node, such as 500d.")
    ] = None,
    write: Annotated[
        str, typer.Option("--checkpoint-write", metavar="TIME", help="How long a checkpoint blocks the job.")
    ] = "10s",
    restart: Annotated[
        str, typer.Option("--restart", metavar="TIME", help="From a fault until the job computes again, with a spare.")
    ] = "30s",
    requeue: Annotated[
        str, typer.Option("--requeue", metavar="TIME", help="The same without a spare, through the queue.")
    ] = "5m",
    min_slice: Annotated[
        int | None,
        typer.Option("--min-slice", metavar="GPUS", min=1, help="Fewest GPUs of the best slice (default: 32)."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Also draw the choices into an SVG file.")
    ] = None,
    env: Env = None,
    env_file: EnvFile = None,
    secret: Secret = None,
    output: As = Output.TEXT,
) -> None:
    """Show how large slices should be, and their spares.

    For each slice size that divides the job: how much of the fleet
    slices can use, how often the job restarts, and how much of its
    time is progress. The fleet is an inventory, or imaginary.

    \b
    Example:
      nvlaunch size --gpus 512 -i examples/fleet-9xnvl72.yaml
      nvlaunch size examples/vla-8x64.yaml --racks 9 --mtbf 500d
    """
    from launcher.admission.context import AdmissionContext
    from launcher.admission.request import RequestSource
    from launcher.admission.slice_sizes import SizeRequest, size_slices
    from launcher.cli.given import read_given
    from launcher.cli.output.admission import AdmissionReport
    from launcher.drive.adapters import open_prober
    from launcher.store.store import Store

    if (file is None) is (gpus is None):
        refuse("name a task file or `--gpus`, one of them", hint="`nvlaunch size --gpus 512`")
    _check_gpus(gpus, "--gpus")
    _check_gpus(min_slice, "--min-slice")
    if plot is not None and not plot.name:
        refuse("`--plot` needs the name of a file", hint="such as `--plot sizes.svg`")
    given = read_given(env, env_file, secret)
    task = RequestSource(
        task=file or Path(), inventory=inventory, envs=given.envs, secrets=given.secrets, values_later=True
    )
    request = SizeRequest(
        task=None if file is None else task,
        gpus=gpus,
        inventory=inventory,
        imaginary=_imaginary(inventory, racks, nodes, gpus_per_node),
        rate=_rate(faults, mtbf),
        write_s=_seconds(write, "--checkpoint-write"),
        restart_s=_seconds(restart, "--restart"),
        requeue_s=_seconds(requeue, "--requeue"),
        least_gpus=min_slice,
    )
    store = Store(home())
    context = AdmissionContext(store=store, open_prober=partial(open_prober, store.home), listener=AdmissionReport())
    _show(size_slices(context, request), output, plot)


def _check_gpus(gpus: int | None, option: str) -> None:
    if gpus is not None and gpus > MAX_GPUS:
        refuse(f"more than {MAX_GPUS:,} GPUs", hint=f"`size` takes up to {MAX_GPUS:,}", where=option)


def _imaginary(
    inventory: str | None, racks: int | None, nodes: int | None, gpus_per_node: int | None
) -> "FleetShape | None":
    """Return the imaginary fleet of the options; None for an inventory."""
    from launcher.core.planner.sizing import FleetShape

    if racks is None:
        if nodes is not None or gpus_per_node is not None:
            refuse("`--nodes` and `--gpus-per-node` describe an imaginary fleet", hint="add `--racks`")
        return None
    if inventory is not None:
        refuse("`--inventory` and `--racks` exclude each other", hint="use one of them")
    fleet = FleetShape(racks=racks, nodes_per_rack=nodes or 18, gpus_per_node=gpus_per_node or 4)
    if fleet.racks * fleet.nodes_per_rack * fleet.gpus_per_node > MAX_GPUS:
        refuse(f"the imaginary fleet has more than {MAX_GPUS:,} GPUs", hint="use fewer racks, nodes or GPUs")
    return fleet


def _rate(faults: str | None, mtbf: str | None) -> str:
    """Return the rate of faults as the use case takes it."""
    if faults is not None and mtbf is not None:
        refuse("`--faults` and `--mtbf` exclude each other", hint="use one of them")
    if mtbf is not None:
        if seconds_of(mtbf) is None:
            refuse(f"`{mtbf}` is not a time", hint="write `500d` or `12000h`", where="--mtbf")
        return mtbf
    if faults is not None and faults not in _known_rates():
        listed = ", ".join(f"`{name}`" for name in _known_rates())
        refuse(f"`{faults}` is not one of {listed}", hint="`--mtbf 500d` sets a rate of your own", where="--faults")
    return faults or _known_rates()[0]


def _seconds(text: str, option: str) -> float:
    seconds = seconds_of(text)
    if seconds is None:
        refuse(f"`{text}` is not a time", hint="write `90`, `30m`, `72h` or `12:30:00`", where=option)
    return seconds


def _show(report: "SizeReport", output: Output, plot: Path | None) -> None:
    from launcher.cli.output.sizes import sizes_json, sizes_text

    if plot is not None:
        _draw(report, plot)
    if report.observed is not None and report.observed.doubtful:
        warn(f"{report.observed.incidents} incidents are few: the rate may be wrong by a factor of 2 or more")
    if output is Output.JSON:
        show(json.dumps(sizes_json(report), indent=2))
        return
    for note in report.notes:
        say(clean(f"note: {note}"))
    show(sizes_text(report))


def _draw(report: "SizeReport", file: Path) -> None:
    """Write the picture; a file that exists is not replaced."""
    from launcher.cli.output.size_plot import sizes_svg

    picture = sizes_svg(report)
    created = False
    try:
        with file.open("x", encoding="utf-8") as out:
            created = True
            out.write(picture)
    except FileExistsError:
        refuse(f"`{file}` already exists", hint="name another file with `--plot`")
    except OSError as error:
        if created:
            file.unlink(missing_ok=True)
        refuse(f"cannot write `{file}`: {(error.strerror or str(error)).lower()}")
    say(clean(f"wrote {file}"))
