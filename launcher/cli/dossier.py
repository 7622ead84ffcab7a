"""What a report of a run holds, without the value of any secret."""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, replace
from pathlib import Path

from launcher import __version__
from launcher.cli.console import warn
from launcher.cli.seats import holder
from launcher.core.fleet import Inventory, NodeName
from launcher.core.run import Record, Run
from launcher.core.task import Task
from launcher.drive.control import open_nodes
from launcher.errors import LaunchError
from launcher.ports import LogName, Nodes
from launcher.store.codec import dump
from launcher.store.rows import RunRow
from launcher.store.store import Store, secrets_file

LOG_END = 64 * 1024
"""Bytes of each log, from its end."""
CONTROLLER_END = 1 << 20
LOGS_S = 60.0
"""How long logs are waited for (s): those of nodes that are out of reach are left out, and named."""
FAN_OUT = 64

UNREAD = "logs/unread.txt"
"""Which logs are not there, and why."""

HIDDEN = "<hidden>"

_TELLTALE = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|(^|_)KEYS?$", re.IGNORECASE)
"""Names of variables whose values are nobody's business, although they were not given as secrets."""
_SHORTEST = 4
"""A value of fewer bytes is found everywhere; to blank it out would tell more than it hides."""


def dossier(store: Store, row: RunRow) -> Iterator[tuple[str, bytes]]:
    """Answer the files of a report, each with its name."""
    run, record = store.load(row.id)
    values, unknown = _secret_values(store, run)
    blank = _Blank(values)
    for name, text in _texts(store, row, run, record):
        yield name, blank.text(text)
    yield "journal.jsonl", blank.text("".join(f"{line}\n" for line in _journal(store, run)))
    log = store.home / "runs" / run.id / "controller.log"
    if log.is_file():
        yield "controller.log", blank.data(log.read_bytes()[-CONTROLLER_END:])
    if unknown:  # a program may have printed them
        words = f"left out: the values of {', '.join(unknown)} are not known any more, and so could not be taken out"
        warn(f"logs are {words}; with {', '.join(unknown)} in the environment they are cleaned and added")
        yield UNREAD, f"{words}\n".encode()
        return
    for name, data in _logs(store.home, run, record):
        yield name, blank.data(data)


def _texts(store: Store, row: RunRow, run: Run, record: Record) -> Iterator[tuple[str, str]]:
    from launcher.cli.render_nodes import known, nodes_json

    python = sys.version.split()[0]
    yield "about.json", json.dumps({"nvlaunch": __version__, "python": python, "run": run.id, "task": row.source})
    yield "status.json", row.snapshot
    yield "task.json", dump(Task, _masked(run).task)
    yield "run.json", dump(Run, _masked(run))
    yield "record.json", dump(Record, record)
    events = [{**asdict(event), "kind": event.kind.value} for event in store.events(run.id)]
    yield "events.jsonl", "".join(f"{json.dumps(event)}\n" for event in events)
    names = {node.name for node in run.fleet.nodes}
    yield "nodes.json", json.dumps(nodes_json(known(store, names)), indent=2)


def _journal(store: Store, run: Run) -> Iterator[str]:
    """Variables mean nothing to the kernel: without them its decisions are the same."""
    for line in store.looks.lines(run.id):
        shape = json.loads(line)
        for group in shape["run"]["task"]["groups"]:
            group["envs"] = _mask(group["envs"])
        for node in shape["run"]["fleet"]["nodes"]:
            node["env"] = _mask(node["env"])
        yield json.dumps(shape, ensure_ascii=False, separators=(",", ":"))


def _masked(run: Run) -> Run:
    groups = tuple(replace(group, envs=_mask(group.envs)) for group in run.task.groups)
    nodes = tuple(replace(node, env=_mask(node.env)) for node in run.fleet.nodes)
    fleet: Inventory = replace(run.fleet, nodes=nodes)
    return replace(run, task=replace(run.task, groups=groups), fleet=fleet)


def _mask(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: HIDDEN if _TELLTALE.search(name) else value for name, value in variables.items()}


def _secret_values(store: Store, run: Run) -> tuple[set[str], list[str]]:
    """Answer the values to blank out wherever they stand: the run's secrets and variables that look like some; and the
    names of secrets whose values are unknown. Of a run that is over none is kept: they may be in our environment."""
    found = {
        value
        for variables in (*(group.envs for group in run.task.groups), *(node.env for node in run.fleet.nodes))
        for name, value in variables.items()
        if _TELLTALE.search(name)
    }
    try:
        kept = json.loads(secrets_file(store.home, run.id).read_text(encoding="utf-8"))
    except FileNotFoundError:  # it has none, or is over
        kept = {name: os.environ[name] for name in run.task.secrets if name in os.environ}
    return found | set(kept.values()), sorted(set(run.task.secrets) - kept.keys())


class _Blank:
    """Takes values out of what is written, as they are and as JSON writes them."""

    def __init__(self, values: set[str]) -> None:
        spelled = {spell for value in values for spell in (value, json.dumps(value)[1:-1])}
        spelled |= {line for value in values for line in value.splitlines()}
        longest_first = sorted((one.encode() for one in spelled if len(one.encode()) >= _SHORTEST), key=len)[::-1]
        self._pattern = re.compile(b"|".join(map(re.escape, longest_first))) if longest_first else None

    def data(self, data: bytes) -> bytes:
        """Answer the bytes without them."""
        return data if self._pattern is None else self._pattern.sub(HIDDEN.encode(), data)

    def text(self, text: str) -> bytes:
        """Answer the text without them."""
        return self.data(text.encode("utf-8", "replace"))


def _logs(home: Path, run: Run, record: Record) -> Iterator[tuple[str, bytes]]:
    """Answer the ends of the logs of all ranks and of the provisioning of all nodes, and which could not be had."""
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
    return [f"{name}: {words}" for name, words in ends.items() if isinstance(words, str)]


def _end(nodes: Nodes, run: Run, node: NodeName, log: LogName) -> bytes | str:
    try:
        return nodes.read_log(run, node, log, -LOG_END).data
    except LaunchError as error:
        return error.advice
