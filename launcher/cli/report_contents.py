"""The files of a report of a run, without secrets."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, fields
from enum import Enum
from pathlib import Path
from typing import Any, get_args

from launcher import __version__
from launcher.cli.output.console import warn
from launcher.cli.redact import Redactor, command_passwords, distinct
from launcher.core.model.actions import Action
from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL
from launcher.core.model.nodeset import NodeName
from launcher.core.model.record import Record
from launcher.core.model.run import Run
from launcher.core.model.secret_words import is_secret_name
from launcher.core.model.task import Task
from launcher.drive.adapters import open_nodes
from launcher.drive.targets import holder
from launcher.errors import LaunchError
from launcher.ports import LogName, Nodes
from launcher.store.codec import dump
from launcher.store.decision_log import DamagedDecision
from launcher.store.rows import RunRow
from launcher.store.run_files import secrets_file
from launcher.store.store import Store

LOG_END = 64 * 1024
"""Bytes of each log, from its end."""
CONTROLLER_END = 1 << 20
LOGS_S = 60.0
"""How long to wait for logs (s); those of unreachable nodes are left out, and listed."""
FAN_OUT = 64

UNREAD = "logs/unread.txt"
"""Which logs are missing, and why."""
DAMAGED = "unread.txt"
"""What else is missing, and why."""
DECISIONS = "decisions.jsonl"
_BORDER = re.compile(rb"[\r\n]")


def contents(store: Store, row: RunRow) -> Iterator[tuple[str, bytes]]:
    """Return the files of a report, with their names.

    What cannot be read is left out, listed, and warned about.
    """
    run, record = store.load(row.id)
    values, unknown = _secret_values(store, run)
    redactor = Redactor(values, _names(run))
    damaged: list[str] = []
    for name, read in _parts(store, row, run, record).items():
        try:
            data = read(redactor)
        except (LaunchError, OSError, ValueError) as error:  # ValueError: invalid JSON, text or enum values
            damaged.append(f"{name}: {_first_line(error)}")
        else:
            yield name, data
    yield DECISIONS, _decisions(store, run, redactor, damaged)
    if damaged:
        warn(f"missing in the report: {damaged[0]}{_more(damaged)}; `{DAMAGED}` in it has the full list")
        yield DAMAGED, redactor.data("".join(f"{line}\n" for line in damaged).encode("utf-8", "replace"))
    if unknown:  # the program may have printed them
        names = ", ".join(unknown)
        message = f"left out, as the values of {names} are unknown and cannot be removed"
        warn(f"logs are {message}; set {names} in the environment to include them")
        yield UNREAD, f"logs are {message}\n".encode()
        return
    for name, data in _logs(store.home, run, record):
        yield name, redactor.data(data)


def _parts(store: Store, row: RunRow, run: Run, record: Record) -> Mapping[str, Callable[[Redactor], bytes]]:
    """Return a function for each file that reads it."""
    about = {"nvlaunch": __version__, "python": sys.version.split()[0], "run": run.id, "task": row.source}
    about |= {"user": row.user.name, "submit_host": row.user.host}
    log = store.home / "runs" / run.id / "controller.log"
    parts: dict[str, Callable[[Redactor], bytes]] = {
        "about.json": lambda redactor: _json(redactor.shape(about)),
        "status.json": lambda redactor: _json(redactor.shape(json.loads(row.snapshot))),
        "task.json": lambda redactor: _json(redactor.shape(json.loads(dump(Task, run.task)))),
        "run.json": lambda redactor: _json(redactor.shape(json.loads(dump(Run, run)))),
        "record.json": lambda redactor: _json(redactor.shape(json.loads(dump(Record, record)))),
        "events.jsonl": lambda redactor: b"".join(_line(redactor.shape(event)) for event in _events(store, run)),
        "nodes.json": lambda redactor: _json(redactor.shape(_nodes(store, run))),
    }
    if log.is_file():
        parts["controller.log"] = lambda redactor: redactor.data(_from_line(log.read_bytes(), CONTROLLER_END))
    return parts


def _events(store: Store, run: Run) -> Iterator[object]:
    for event in store.journal.events(run.id):
        yield {**asdict(event), "kind": event.kind.value, "evidence": list(event.evidence)}


def _nodes(store: Store, run: Run) -> object:
    from launcher.cli.output.nodes import node_records, nodes_json

    return nodes_json(node_records(store, {node.name for node in run.fleet.nodes}))


def _decisions(store: Store, run: Run, redactor: Redactor, damaged: list[str]) -> bytes:
    """Return the decisions of a run.

    They do not depend on variables and commands, so these can be redacted.
    """
    lines: list[bytes] = []
    try:
        for number, line in enumerate(store.decisions.lines(run.id), start=1):
            if isinstance(line, DamagedDecision):
                damaged.append(f"{DECISIONS}: decision {line.seq}: {line.message}")
                continue
            try:
                lines.append(_line(redactor.shape(json.loads(line))))
            except ValueError as error:
                damaged.append(f"{DECISIONS}: decision {number}: {_first_line(error)}")
    except LaunchError as error:
        damaged.append(f"{DECISIONS}: {error.message}")
    return b"".join(lines)


def _json(shape: object) -> bytes:
    return f"{json.dumps(shape, ensure_ascii=False, indent=2)}\n".encode("utf-8", "replace")


def _line(shape: object) -> bytes:
    return f"{json.dumps(shape, ensure_ascii=False, separators=(',', ':'))}\n".encode("utf-8", "replace")


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def _more(damaged: Sequence[str]) -> str:
    return f", and {len(damaged) - 1} more" if len(damaged) > 1 else ""


def _secret_values(store: Store, run: Run) -> tuple[set[str], list[str]]:
    """Return the values to remove.

    The run's secrets, and distinct values that are likely secrets; and the names of secrets whose values are unknown.
    The secrets of an ended run are not stored: they may be in the environment.
    """
    tasks = [run.task, *([run.target.task] if run.target else [])]
    fleets = [run.fleet, *([run.target.fleet] if run.target else [])]
    variables: list[Mapping[str, str]] = [group.envs for task in tasks for group in task.groups]
    variables += [node.env for fleet in fleets for node in fleet.nodes]
    alike = {value for some in variables for name, value in some.items() if is_secret_name(name) and distinct(value)}
    commands = [command or "" for fleet in fleets for command in (fleet.fence_command, fleet.power_query)]
    alike |= {value for command in commands for value in command_passwords(command) if not value.isdigit()}
    names = {name for task in tasks for name in task.secrets}
    try:
        kept = json.loads(secrets_file(store.home, run.id).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # it has none, or has ended
        kept = {name: os.environ[name] for name in names if name in os.environ}
    return alike | set(kept.values()), sorted(names - kept.keys())


def _names(run: Run) -> frozenset[str]:
    """Return the names that decisions depend on.

    Those of the run, and the values of enums.
    """
    found: set[str] = {run.id, run.name, run.fleet.name, *run.fleet.levels, RACK_LEVEL, NODE_LEVEL, ANY_LEVEL, "None"}
    for node in (*run.fleet.nodes, *(run.target.fleet.nodes if run.target else ())):
        found |= {node.name, node.rack, node.domain or "", *node.places.values()}
    for part in (*run.placement.slices, *(run.target.comes if run.target else ())):
        found |= {part.group, part.key, part.place}
    for member in run.members():
        found |= {member.name, member.label, member.slot, run.gang(member)}
    for action in get_args(Action):
        found |= {str(field.default) for field in fields(action) if field.name == "kind"}
    for kind in _subclasses(Enum):
        if kind.__module__.startswith("launcher."):
            found |= {str(one.value) for one in kind}
    return frozenset(found - {""})


def _subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    for one in kind.__subclasses__():
        yield one
        yield from _subclasses(one)


def _from_line(data: bytes, limit: int) -> bytes:
    """Return the end of a log, from the start of a line.

    Half a secret would not be recognised.
    """
    if len(data) <= limit:
        return data
    end = data[-limit:]
    border = _BORDER.search(end)
    return end[border.end() :] if border else f"(one line of more than {limit} bytes omitted)\n".encode()


def _logs(home: Path, run: Run, record: Record) -> Iterator[tuple[str, bytes]]:
    """Return the ends of all logs of ranks and nodes, and a list of missing ones."""
    wanted = [
        (f"logs/{member.name}.log", holder(run, record, member), LogName(member=member.name))
        for member in run.members()
    ]
    wanted += [(f"logs/provision/{node.name}.log", node.name, LogName()) for node in run.fleet.nodes]
    nodes = open_nodes(home, run.fleet)
    pool = ThreadPoolExecutor(FAN_OUT, thread_name_prefix="report")
    try:
        asked = {name: pool.submit(_end, nodes, run, node, log) for name, node, log in wanted}
        wait(asked.values(), timeout=LOGS_S)
        ends = {name: ask.result() if ask.done() else "no answer in time" for name, ask in asked.items()}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        nodes.close()
    yield from ((name, end) for name, end in ends.items() if isinstance(end, bytes) and end)
    if unread := _unread(ends):
        yield UNREAD, "".join(f"{line}\n" for line in unread).encode("utf-8", "replace")


def _unread(ends: Mapping[str, bytes | str]) -> Sequence[str]:
    return [f"{name}: {why}" for name, why in ends.items() if isinstance(why, str)]


def _end(nodes: Nodes, run: Run, node: NodeName, log: LogName) -> bytes | str:
    try:
        return _from_line(nodes.read_log(run, node, log, -LOG_END - 1).data, LOG_END)
    except LaunchError as error:
        return error.advice
