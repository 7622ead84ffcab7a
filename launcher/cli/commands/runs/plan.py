"""`plan`: where a task would run now, or why it would not fit."""

import json
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import As, Env, EnvFile, FleetFile, Name, Output, Secret, TaskFile
from launcher.cli.output.console import show
from launcher.cli.plain import PlainCommand
from launcher.errors import ExitCode, NoCapacityError, refuse
from launcher.store.home import home

if TYPE_CHECKING:
    from launcher.admission.context import AdmissionContext
    from launcher.admission.plan import TaskPlan
    from launcher.admission.request import Request


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
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            metavar="LEVELS",
            help="Place the task with each of these levels as `within`, and show what each costs: `rack,block,any`.",
        ),
    ] = None,
    output: As = Output.TEXT,
) -> None:
    """Show where a task would run now, and the bandwidth it gets.

    If it does not fit, show why, and what would make it fit.
    Changes nothing and contacts no node.

    \b
    Example:
      nvlaunch plan examples/vla-8x64.yaml -i examples/fleet-9xnvl72.yaml -o json
    """
    from launcher.admission.context import AdmissionContext
    from launcher.admission.request import RequestSource, read_requests
    from launcher.cli.given import read_given
    from launcher.cli.output.admission import AdmissionReport
    from launcher.drive.adapters import open_prober
    from launcher.store.store import Store

    given = read_given(env, env_file, secret)
    source = RequestSource(
        task=file, inventory=inventory, name=name, envs=given.envs, secrets=given.secrets, values_later=True
    )
    store, report = Store(home()), AdmissionReport()
    context = AdmissionContext(store=store, open_prober=partial(open_prober, store.home), listener=report)
    requests = read_requests(context, source)
    if len(requests) > 1 and (compare is not None or output is Output.JSON):
        refuse("`--compare` and `-o json` plan one task, and a pipeline has several", hint="plan its tasks one by one")
    for request in requests:
        if compare is not None:
            show_choices(context, request, compare, output, verbose=verbose)
        else:
            _show(context, request, output, verbose=verbose)


def _show(context: "AdmissionContext", request: "Request", output: Output, *, verbose: bool) -> None:
    """Place a task, and show its plan; NoCapacityError where it does not fit."""
    from launcher.admission.plan import plan as place

    try:
        found = place(context, request)
    except NoCapacityError as error:
        if output is Output.JSON:
            from launcher.cli.output.shortfall import shortfall_json

            show(json.dumps({"shortfall": shortfall_json(error.shortfall, error.straddling)}, indent=2))
        raise
    show_plan(request, found, output, verbose=verbose)


def show_plan(request: "Request", found: "TaskPlan", output: Output, *, verbose: bool = False) -> None:
    """Show a plan; with `verbose` also all candidate racks."""
    from launcher.api.plan import describe
    from launcher.cli.output.plan import agreement_text, plan_text, start_check_text, survey_text
    from launcher.store.plain import plain

    plan = describe(request, found, verbose=verbose)
    if output is Output.JSON:
        show(json.dumps(plain(plan), indent=2))
        return
    show(plan_text(request.task, found.placement, found.costs(), request.fleet, verbose=verbose))
    if plan.before_start is not None:
        show(start_check_text(plan.before_start))
    if agreed := agreement_text(request.task, request.fleet):
        show(agreed)
    if verbose:
        show(survey_text(found.candidates(), plan.fragmentation))


def show_choices(
    context: "AdmissionContext", request: "Request", levels: str, output: Output, *, verbose: bool
) -> None:
    """Show a task at several levels; exit 3 where it fits at none."""
    from launcher.admission.compare import compare_levels
    from launcher.api.plan import describe_choices
    from launcher.cli.output.cost import compare_text
    from launcher.store.plain import plain

    choices = compare_levels(context, request, [one for text in levels.split(",") if (one := text.strip())])
    if output is Output.JSON:
        show(json.dumps(plain(describe_choices(request, choices)), indent=2))
    else:
        show(compare_text(choices, verbose=verbose))
    if all(choice.placement is None for choice in choices):
        raise typer.Exit(ExitCode.NO_CAPACITY)
