"""`plan`: where a task would run now, or why it does not fit."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import As, Env, EnvFile, FleetFile, Name, Output, Secret, TaskFile, home
from launcher.cli.output.console import say, show
from launcher.cli.plain import PlainCommand
from launcher.errors import NoCapacityError

if TYPE_CHECKING:
    from launcher.cli.intake import Request
    from launcher.core.model.placement import Placement
    from launcher.store.store import Store


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(plan)


def plan(
    file: TaskFile,
    name: Name = None,
    inventory: FleetFile = None,
    env: Env = None,
    env_file: EnvFile = None,
    secret: Secret = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Show every candidate rack, and why it was selected or not.")
    ] = False,
    output: As = Output.TEXT,
) -> None:
    """Show where a task would run now.

    If it does not fit, show why, and what would make it fit.
    Changes nothing and contacts no node.

    \b
    Example:
      nvlaunch plan examples/vla-8x64.yaml -i examples/fleet-9xnvl72.yaml -o json
    """
    from launcher.store.store import Store

    request = read(file, name, inventory, env, env_file, secret)
    store = Store(home())
    try:
        placement = place_now(request, store)
    except NoCapacityError as error:
        if output is Output.JSON:
            from launcher.cli.output.shortfall import shortfall_json

            show(json.dumps({"shortfall": shortfall_json(error.shortfall)}, indent=2))
        raise
    show_plan(request, store, placement, output, verbose=verbose)


def read(
    file: Path,
    name: str | None,
    inventory: str | None,
    env: list[str] | None,
    env_file: list[Path] | None,
    secret: list[str] | None,
) -> "Request":
    """Return a task with its inventory, and with what the command line says of it."""
    from launcher.cli.intake import Words, read_request

    words = Words(name=name, envs=env or (), env_files=env_file or (), secrets=secret or ())
    return read_request(file, inventory, words)


def place_now(request: "Request", store: "Store") -> "Placement":
    """Return where a task would run now, as far as is remembered of the nodes; NoCapacityError where nowhere."""
    from launcher.cli.launching import free
    from launcher.cli.ready import as_remembered
    from launcher.core.model.placement import Shortfall
    from launcher.core.placement.place import place

    answer = place(request.task, as_remembered(request.fleet), free(store, request))
    if isinstance(answer, Shortfall):
        raise NoCapacityError(answer)
    return answer


def say_plan(request: "Request", placement: "Placement") -> None:
    """Say where a task is about to run."""
    from launcher.cli.output.plan import plan_text

    say(plan_text(request.task.name, placement))


def show_plan(
    request: "Request", store: "Store", placement: "Placement", output: Output, *, verbose: bool = False
) -> None:
    """Show where a task would run; with `verbose`, also the candidate racks of each group."""
    from launcher.cli.output.plan import fragmentation_change, plan_json, plan_text, survey_json, survey_text
    from launcher.cli.ready import as_remembered
    from launcher.core.placement.explain import survey

    fleet, unavailable = as_remembered(request.fleet), store.unavailable(request.fleet)
    score = fragmentation_change(fleet, unavailable, placement)
    surveyed = survey(request.task, fleet, unavailable, placement) if verbose else ()
    if output is Output.JSON:
        told = plan_json(request.task.name, request.fleet, placement, score)
        show(json.dumps({**told, **({"racks": survey_json(surveyed)} if verbose else {})}, indent=2))
        return
    show(plan_text(request.task.name, placement))
    if verbose:
        show(survey_text(surveyed, score))
