"""`simulate`: what a fleet does over days to months of virtual time."""

import itertools
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import As, FleetFile, Output
from launcher.cli.output.console import clean, say, show
from launcher.cli.plain import PlainCommand
from launcher.errors import refuse
from launcher.store.home import home

if TYPE_CHECKING:
    from collections.abc import Callable

    from launcher.core.model.inventory import Inventory
    from launcher.simulate.experiment import Experiment
    from launcher.simulate.policy import Policy
    from launcher.simulate.workload import Job

RACK_NODES = 18


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(simulate)


def simulate(
    inventory: FleetFile = None,
    racks: Annotated[int | None, typer.Option("--racks", min=1, help="Racks of an imaginary fleet.")] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, help="Nodes of each imaginary rack (default: 18).")
    ] = None,
    days: Annotated[float, typer.Option("--days", help="Days that are measured, once the fleet is full.")] = 30.0,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How often, with other jobs and faults each time.")] = 1,
    load: Annotated[float, typer.Option("--load", help="Share of the fleet's GPU time that the jobs ask for.")] = 0.9,
    mix: Annotated[str | None, typer.Option("--mix", help="Mix of job sizes: seren (default) or kalos.")] = None,
    largest: Annotated[
        int | None, typer.Option("--largest", metavar="GPUS", min=1, help="Leave larger jobs of the mix out.")
    ] = None,
    jobs: Annotated[
        Path | None, typer.Option("--jobs", metavar="FILE", help="CSV file: arrival_s, gpus, duration_s.")
    ] = None,
    task: Annotated[
        list[Path] | None, typer.Option("--task", metavar="FILE", help="Task file that arrives again and again.")
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--duration", metavar="TIME", help="How long each task computes (default: 1d).")
    ] = None,
    faults: Annotated[
        str,
        typer.Option(
            "--faults", metavar="RATE", help="llama-3, rsc-1, rsc-2, or the time between faults of a node, as 500d."
        ),
    ] = "llama-3",
    policy: Annotated[Path | None, typer.Option("--policy", metavar="FILE", help="Policy file (YAML).")] = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option("--compare", metavar="FILE FILE", help="Two policy files, on the same jobs and faults."),
    ] = None,
    output: As = Output.TEXT,
) -> None:
    """Simulate a fleet over days to months, with faults.

    Shows where its GPU time goes, how long jobs wait, and how whole
    its racks stay. The queue, placement and recovery are those of
    nvlaunch. Jobs, faults and repairs are drawn from published figures.

    \b
    Example:
      nvlaunch simulate -i examples/fleet-9xnvl72.yaml --days 7
      nvlaunch simulate --racks 9 --days 30 --compare a.yaml b.yaml
    """
    from launcher.cli.output.simulation import simulation_json, simulation_text
    from launcher.simulate.experiment import play

    policies = _policies(policy, compare)
    experiment = _experiment(inventory, racks, nodes, days, seeds, load, faults)
    experiment = _with_jobs(experiment, policies, mix, largest, jobs, task or [], duration)
    results = play(experiment, policies, _told(seeds * len(policies)))
    if output is Output.JSON:
        show(json.dumps(simulation_json(experiment, results), indent=2))
        return
    show(simulation_text(experiment, results))


def _policies(policy: Path | None, compare: tuple[Path, Path] | None) -> "list[Policy]":
    from launcher.simulate.policy import Policy
    from launcher.simulate.policy_file import read_policy

    if policy is not None and compare is not None:
        refuse("`--policy` and `--compare` exclude each other", hint="use one of them")
    if compare is None:
        return [Policy() if policy is None else read_policy(policy)]
    policies = [read_policy(path) for path in compare]
    if policies[0].name == policies[1].name:
        refuse(f"both policies have the name `{policies[0].name}`", hint="give them a `name` each", where="--compare")
    return policies


def _experiment(
    inventory: str | None, racks: int | None, nodes: int | None, days: float, seeds: int, load: float, faults: str
) -> "Experiment":
    from launcher.core.planner.faults import FaultModel, rate_of
    from launcher.simulate.experiment import Experiment

    fleet = _fleet(inventory, racks, nodes)
    try:
        rate = rate_of(faults, max((node.gpus for node in fleet.nodes), default=1) or 1)
    except ValueError as error:
        refuse(str(error), where="--faults")
    found = Experiment(inventory=fleet, model=FaultModel(rate=rate), days=days, seeds=seeds, load=load)
    found.check()
    return found


def _fleet(inventory: str | None, racks: int | None, nodes: int | None) -> "Inventory":
    from launcher.config.inventory.read import find_inventory
    from launcher.simulate.experiment import MAX_NODES, imaginary_fleet

    if racks is None:
        if nodes is not None:
            refuse("`--nodes` describes an imaginary fleet", hint="add `--racks`")
        return find_inventory(inventory, os.environ, home())
    if inventory is not None:
        refuse("`--inventory` and `--racks` exclude each other", hint="use one of them")
    if racks * (nodes or RACK_NODES) > MAX_NODES:
        refuse(f"the imaginary fleet has more than {MAX_NODES:,} nodes", hint="use fewer racks or nodes")
    return imaginary_fleet(racks, nodes or RACK_NODES)


def _with_jobs(
    experiment: "Experiment",
    policies: "list[Policy]",
    mix: str | None,
    largest: int | None,
    jobs: Path | None,
    tasks: list[Path],
    duration: str | None,
) -> "Experiment":
    """Return the experiment with its jobs: of a mix, of a CSV file, or of tasks."""
    from dataclasses import replace

    from launcher.simulate.job_file import read_jobs
    from launcher.simulate.workload import MIXES

    if sum((mix is not None, jobs is not None, bool(tasks))) > 1:
        refuse("`--mix`, `--jobs` and `--task` exclude each other", hint="use one of them")
    if duration is not None and not tasks:
        refuse("`--duration` is that of a task", hint="add `--task FILE`")
    if largest is not None and (jobs is not None or tasks):
        refuse("`--largest` is for a mix", hint="use it with `--mix`")
    if jobs is not None:
        return _fitting(replace(experiment, jobs=read_jobs(jobs)), policies, str(jobs))
    if tasks:
        return _fitting(replace(experiment, jobs=_jobs_of(tasks, duration), repeat=True), policies, "--task")
    name = mix or "seren"
    if name not in MIXES:
        refuse(f"`{name}` is not one of {', '.join(f'`{one}`' for one in MIXES)}", where="--mix")
    whole = MIXES[name]
    chosen = whole.only(lambda gpus: gpus <= (largest or gpus) and experiment.fits(gpus, policies))
    left_out = tuple(one.gpus for one in whole.classes if one.gpus > chosen.classes[-1].gpus)
    return replace(experiment, mix=chosen, left_out=left_out)


def _jobs_of(tasks: list[Path], duration: str | None) -> "tuple[Job, ...]":
    from launcher.core.model.text import seconds_of
    from launcher.simulate.job_file import job_of_task

    seconds = seconds_of(duration or "1d")
    if not seconds:
        refuse(f"`{duration}` is not a time above 0", hint="write `90m`, `12h` or `2d`", where="--duration")
    return tuple(job_of_task(path, seconds) for path in tasks)


def _fitting(experiment: "Experiment", policies: "list[Policy]", where: str) -> "Experiment":
    """Return the experiment where all of its jobs fit the empty fleet."""
    for gpus in sorted({job.gpus for job in experiment.jobs}, reverse=True):
        if not experiment.fits(gpus, policies):
            refuse(f"a job of {gpus:,} GPUs has no room in the empty fleet", hint="simulate more racks", where=where)
    return experiment


def _told(total: int) -> "Callable[[Policy, int], None]":
    """Return what says on a terminal which simulation begins, where there are several."""
    numbers = itertools.count(1)

    def tell(policy: "Policy", seed: int) -> None:
        if total > 1 and sys.stderr.isatty():
            say(clean(f"simulation {next(numbers)} of {total}: policy `{policy.name}`, seed {seed}"))

    return tell
