"""`up`: start a task and follow its run."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import Env, EnvFile, FleetFile, Name, Output, Secret, ShownRank, TaskFile, Yes, run_names
from launcher.cli.output.console import clean, say, show, warn
from launcher.cli.plain import PlainCommand
from launcher.errors import ExitCode, refuse
from launcher.store.home import home

if TYPE_CHECKING:
    from launcher.admission.launch import Acceptance
    from launcher.core.model.task import Task
    from launcher.store.rows import RunRow


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(up)


def up(
    file: TaskFile,
    name: Name = None,
    inventory: FleetFile = None,
    detach: Annotated[bool, typer.Option("-d", "--detach", help="Return as soon as the run has its nodes.")] = False,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and exit.")] = False,
    env: Env = None,
    env_file: EnvFile = None,
    secret: Secret = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Drive the run in this process (for CI and systemd).")
    ] = False,
    rank: ShownRank = None,
    queue: Annotated[
        bool, typer.Option("--queue", help="Queue the run where it does not fit now, and return at once.")
    ] = False,
    after: Annotated[
        str | None,
        typer.Option(
            "--after", metavar="RUN", help="Queue the run, to start once RUN has succeeded.", autocompletion=run_names
        ),
    ] = None,
) -> None:
    """Start a task and follow it.

    Shows the output of rank 0; `nvlaunch logs` shows that of all ranks.
    The exit code tells how the run ended. Ctrl-C and a closed terminal
    only stop following; the run continues. For a run that is already
    running, `up` with another number of slices resizes it. The tasks of a
    pipeline, a file of several documents, run one after the other.

    \b
    Example:
      nvlaunch up task.yaml -i fleet.yaml --env STEPS=1000 --secret HF_TOKEN
    """
    from launcher.admission.context import AdmissionContext
    from launcher.admission.launch import admit
    from launcher.admission.plan import plan
    from launcher.admission.queue.chain import admit_chain, admit_queued
    from launcher.admission.request import RequestSource, read_requests
    from launcher.cli.commands.runs.plan import show_plan
    from launcher.cli.drivers import CommandDriver
    from launcher.cli.given import read_given
    from launcher.cli.output.admission import AdmissionReport
    from launcher.drive.adapters import open_checker, open_prober
    from launcher.drive.successors import start_due
    from launcher.store.store import Store

    if detach and foreground:
        refuse("`--detach` and `--foreground` exclude each other", hint="use one of them")
    given = read_given(env, env_file, secret)
    source = RequestSource(
        task=file,
        inventory=inventory,
        name=name,
        envs=given.envs,
        secrets=given.secrets,
        values_later=dry_run,
    )
    with _nothing_started(), AdmissionReport(yes=yes) as report:
        store = Store(home())
        context = AdmissionContext(
            store=store,
            open_prober=partial(open_prober, store.home),
            open_checker=partial(open_checker, store.home),
            listener=report,
        )
        request, *more = requests = read_requests(context, source)
        if dry_run:
            for one in requests:
                show_plan(one, plan(context, one), Output.TEXT)
            return
        for one in requests:
            _check_rank(rank, one.task)
        start_due(store, warn)
        drive = CommandDriver(store, detach=detach, foreground=foreground, rank=rank)
        if more and foreground:
            refuse("`--foreground` drives one run, and a pipeline has several", hint="leave it out")
        if more or after is not None:
            row = drive.one_by_one(admit_chain(context, requests, after=after), follow=not (detach or queue or after))
        else:
            row = (admit_queued if queue else admit)(context, request, drive)
    _conclude(row, drive.how)


def _check_rank(rank: str | None, task: "Task") -> None:
    """Raise SpecError for a rank that a task does not have."""
    from launcher.cli.drivers import ALL_RANKS, NO_RANK

    if rank in (None, ALL_RANKS, NO_RANK):
        return
    sizes = {group.name: group.topology.nodes for group in task.full().groups}
    named = [f"{group}/{at}" for group, size in sizes.items() for at in range(size)]
    if sum(rank in (name, name.rpartition("/")[2]) for name in named) != 1:
        refuse(
            f"`--rank {rank}`: not one rank of `{task.name}`", hint=f"write `all`, `none`, or one such as `{named[0]}`"
        )


@contextmanager
def _nothing_started() -> Iterator[None]:
    """Ctrl-C in this block came before a run was accepted.

    Following an accepted run handles it.
    """
    try:
        yield
    except KeyboardInterrupt:
        say("\nnothing was started")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def _conclude(row: "RunRow", how: "Acceptance | None") -> None:
    """Report the outcome of a run that has ended, else how to follow it.

    A run that continues has its id on stdout.
    """
    from launcher.admission.launch import Acceptance
    from launcher.cli.output.conclude import conclude
    from launcher.core.model.run import RunState

    if row.ended is not None or row.outcome is not None:
        conclude(row)
        return
    if row.state is RunState.QUEUED:
        say(clean(f"Queued {row.name}: {row.status_message}"))
        say(f"Follow: nvlaunch watch {row.name} · Queue: nvlaunch queue")
    else:
        done = "Resizing" if how is Acceptance.RESIZED else "Started"
        say(f"{done} {row.name}. Follow: nvlaunch watch {row.name} · State: nvlaunch status {row.name}")
    show(row.id)
