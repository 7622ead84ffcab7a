"""Start, watch and end runs from Python.

    from launcher import api

    run = api.up("task.yaml", inventory="fleet.yaml", envs={"STEPS": "1000"})
    for line in api.logs(run.id, rank=0, follow=True):
        print(line.text)
    print(api.wait(run.id, timeout=3600).cause)

Values are frozen dataclasses, the same that `-o json` writes (`api.plain` makes them dicts). Errors are those of
`launcher.errors`, which the command turns into exit codes. A task or inventory is the path of a file, or YAML text: a
string with a line break. `home` is $NVLAUNCH_HOME where it is not given. Runs are named by name or id.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from launcher.admission.compare import compare_levels
from launcher.admission.context import AdmissionContext
from launcher.admission.launch import admit
from launcher.admission.plan import plan as place_task
from launcher.admission.queue.chain import admit_chain, admit_queued
from launcher.admission.request import Request, RequestSource, read_request
from launcher.api.log_lines import LogLine, log_lines
from launcher.api.plan import Plan, PlanComparison, describe, describe_choices
from launcher.api.run_info import RunInfo, read_run_info
from launcher.core.model.record import Outcome
from launcher.core.model.run import Run
from launcher.drive.adapters import open_checker, open_nodes, open_prober
from launcher.drive.detached import start_detached
from launcher.drive.follow import SilentRunListener, attend, event_batches
from launcher.drive.follow import follow as follow_run
from launcher.drive.log_reader import LogReader, LogSource, log_sources
from launcher.errors import JobFailedError, ProvisionError
from launcher.store.home import home as default_home
from launcher.store.journal import Event
from launcher.store.plain import plain
from launcher.store.rows import RunRow
from launcher.store.status_reads import StatusReader
from launcher.store.store import Store

__all__ = [
    "Event",
    "LogLine",
    "Outcome",
    "Plan",
    "PlanComparison",
    "RunInfo",
    "compare",
    "down",
    "events",
    "logs",
    "plain",
    "plan",
    "runs",
    "status",
    "up",
    "wait",
]

FileOrText: TypeAlias = str | PathLike[str]
"""A path, or YAML text: a string with a line break."""

Home: TypeAlias = str | PathLike[str] | None


def plan(
    task: FileOrText,
    *,
    inventory: FileOrText | None = None,
    name: str | None = None,
    envs: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    verbose: bool = False,
    home: Home = None,
) -> Plan:
    """Return where a task would run now; changes nothing and asks no node.

    `verbose` adds what each rack offered. NoCapacityError, with what would help, where it does not fit.
    """
    context = _context(home)
    request = _request(context, task, inventory, name, envs, secrets, values_later=True)
    return describe(request, place_task(context, request), verbose=verbose)


def compare(
    task: FileOrText,
    levels: Sequence[str],
    *,
    inventory: FileOrText | None = None,
    name: str | None = None,
    envs: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    home: Home = None,
) -> PlanComparison:
    """Return where a task would run now with each level as `within`, and what that costs; changes nothing.

    SpecError for levels that the inventory does not have, or a task without slices of several GPU nodes.
    """
    context = _context(home)
    request = _request(context, task, inventory, name, envs, secrets, values_later=True)
    return describe_choices(request, compare_levels(context, request, levels))


def up(
    task: FileOrText,
    *,
    inventory: FileOrText | None = None,
    name: str | None = None,
    envs: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    queue: bool = False,
    after: str | None = None,
    home: Home = None,
) -> RunInfo:
    """Start a task, or resize its run. SpecError for a pipeline of several tasks: start them with `after`.

    Return once the run has its nodes, with a controller of its own (as `up -d`).

    With `queue` it waits in the queue where it does not fit now, and is returned at once. With `after` it starts once
    that run has succeeded. `secrets` has values.
    """
    context = _context(home)
    request = _request(context, task, inventory, name, envs, secrets)
    if after is not None:
        (accepted,) = admit_chain(context, (request,), after=after)
        return _info(context.store, start_detached(context.store, accepted))
    row = (admit_queued if queue else admit)(context, request, partial(start_detached, context.store))
    return _info(context.store, row)


def status(run: str, *, home: Home = None) -> RunInfo:
    """Return a run as its controller last saw it."""
    return read_run_info(StatusReader(_home(home)).find(run))


def runs(*, home: Home = None) -> tuple[RunInfo, ...]:
    """Return all runs, oldest first.

    OtherVersionError where another version wrote one of them.
    """
    return tuple(map(read_run_info, StatusReader(_home(home)).all()))


def events(run: str, *, after: int = 0, follow: bool = False, home: Home = None) -> Iterator[Event]:
    """Return the journal of a run, from entry number `after` on.

    With `follow` until the run has ended.
    """
    store = Store(_home(home))
    return chain.from_iterable(event_batches(store, store.find(run).id, after=after, follow=follow))


def logs(
    run: str,
    *,
    rank: int | str | None = None,
    node: str | None = None,
    provision: bool = False,
    attempt: int | None = None,
    tail: int = 1000,
    follow: bool = False,
    home: Home = None,
) -> Iterator[LogLine]:
    """Return the last `tail` lines of each log of a run; all for 0.

    With `follow` also new lines, until the run has ended. `rank` is a number, or `GROUP/N`; `node` a node; `provision`
    selects how nodes were prepared, `attempt` an earlier attempt than the newest. ProvisionError, after all other
    lines, where a log cannot be read. Logs are read by a few threads, which end with the iterator.
    """
    store = Store(_home(home))
    found, record = store.load(store.find(run).id)
    word = None if rank is None else str(rank)
    sources = log_sources(found, record, rank=word, node=node, provision=provision, attempt=attempt)
    return _log_lines(store, found, sources, tail=tail, follow=follow)


def _log_lines(store: Store, run: Run, sources: Sequence[LogSource], *, tail: int, follow: bool) -> Iterator[LogLine]:
    nodes = open_nodes(store.home, run.fleet)
    reader = LogReader(nodes, run, sources)
    try:
        more = reader.follow(lambda: store.find(run.id).ended is not None) if follow else iter(())
        yield from log_lines(chain(reader.tail(tail), more))
        reader.check()
    finally:
        reader.close()
        nodes.close()


def wait(run: str, *, timeout: float | None = None, home: Home = None) -> Outcome:
    """Return the outcome of a run once it has ended.

    TimeoutError after `timeout` seconds.

    Replaces a controller that died, and follows a preempted run through the queue.
    """
    store = Store(_home(home))
    row = _ended(store, store.find(run), timeout)
    if row.outcome is None:
        raise JobFailedError(f"run `{row.name}` is {row.state.value}: {row.status_message}")
    return row.outcome


def down(run: str, *, timeout: float | None = None, home: Home = None) -> RunInfo:
    """End a run; return it once its nodes are released.

    TimeoutError after `timeout` seconds, and the run still ends.

    ProvisionError where nodes are unreachable; the controller keeps trying.
    """
    store = Store(_home(home))
    row = store.find(run)
    store.want_nothing(row.id)
    row = _ended(store, row, timeout)
    if row.ended is None:
        raise ProvisionError("not all nodes are released", outcomes=((row.name, row.status_message),))
    return _info(store, row)


def _home(given: Home) -> Path:
    return default_home() if given is None else Path(given).expanduser().absolute()


def _context(home: Home) -> AdmissionContext:
    store = Store(_home(home))
    return AdmissionContext(
        store=store, open_prober=partial(open_prober, store.home), open_checker=partial(open_checker, store.home)
    )


def _request(
    context: AdmissionContext,
    task: FileOrText,
    inventory: FileOrText | None,
    name: str | None,
    envs: Mapping[str, str] | None,
    secrets: Mapping[str, str] | None,
    *,
    values_later: bool = False,
) -> Request:
    source = RequestSource(name=name, envs=envs or {}, secrets=secrets or {}, values_later=values_later)
    text, path = _text_or_path(task)
    if path is not None:
        source = replace(source, task=path)
    inventory_text, inventory_path = (None, None) if inventory is None else _text_or_path(inventory)
    return read_request(
        context,
        replace(
            source,
            task_text=text,
            inventory=None if inventory_path is None else str(inventory_path),
            inventory_text=inventory_text,
        ),
    )


def _text_or_path(given: FileOrText) -> tuple[str | None, Path | None]:
    if isinstance(given, str) and "\n" in given:
        return given, None
    return None, Path(given)


def _ended(store: Store, row: RunRow, timeout: float | None) -> RunRow:
    if row.ended is not None:
        return row
    listener = SilentRunListener()
    attend(store, row, listener)
    return follow_run(store, row.id, listener, timeout=timeout)


def _info(store: Store, row: RunRow) -> RunInfo:
    return read_run_info(StatusReader(store.home).find(row.id))
