"""Read jobs from CSV files, and make jobs of task files."""

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path

from launcher.config.task.read import read_task
from launcher.config.yaml.text_file import read_text
from launcher.core.placement.colocation import placed_groups
from launcher.errors import Mistake, SpecError, refuse
from launcher.simulate.workload import Job

MAX_BYTES = 20_000_000
MAX_ROWS = 200_000
MAX_GPUS = 10_000_000
MAX_SECONDS = 1e9
MAX_MISTAKES = 10
"""So many wrong rows of a file are reported at most."""

COLUMNS = ("arrival_s", "gpus", "duration_s")


def read_jobs(path: Path) -> tuple[Job, ...]:
    """Return the jobs of a CSV file in order of arrival: `arrival_s` after the start, `gpus`, `duration_s`.

    The first line names the columns; others are ignored. SpecError with the wrong rows.
    """
    text = read_text(path, what="CSV file", limit=MAX_BYTES)
    rows = csv.reader(io.StringIO(text))
    try:
        header = [name.strip() for name in next(rows, [])]
        missing = [name for name in COLUMNS if name not in header]
        if missing:
            hint = f"the first line must name the columns {', '.join(COLUMNS)}"
            refuse(f"column `{missing[0]}` is missing", hint=hint, where=str(path))
        return _jobs(path, ((rows.line_num, row) for row in rows), [header.index(name) for name in COLUMNS])
    except csv.Error as error:
        refuse(f"this is not CSV: {error}", where=f"{path}:{rows.line_num}")


def _jobs(path: Path, rows: Iterator[tuple[int, list[str]]], at: list[int]) -> tuple[Job, ...]:
    found: list[Job] = []
    mistakes: list[Mistake] = []
    for line, row in rows:
        if not any(cell.strip() for cell in row):
            continue
        if len(found) >= MAX_ROWS:
            refuse(f"the file has more than {MAX_ROWS:,} jobs", where=str(path), hint="split it")
        job = _job(len(found) + 1, [row[column] if column < len(row) else "" for column in at])
        if isinstance(job, str):
            mistakes.append(Mistake(what=job, where=str(path), line=line, column=1))
            if len(mistakes) == MAX_MISTAKES:
                break
        else:
            found.append(job)
    if mistakes:
        raise SpecError(tuple(mistakes))
    if not found:
        refuse("the file has no jobs", where=str(path), hint=f"write a line such as `3600,64,7200` for {COLUMNS}")
    return tuple(sorted(found, key=lambda job: job.arrives_s))


def _job(number: int, cells: list[str]) -> Job | str:
    """Return the job of a row, or what is wrong with it."""
    arrives, gpus, work = (_number(cell) for cell in cells)
    if arrives is None or not 0 <= arrives <= MAX_SECONDS:
        return f"`arrival_s` must be seconds from 0, not `{cells[0][:40]}`"
    if gpus is None or gpus != int(gpus) or not 0 < gpus <= MAX_GPUS:
        return f"`gpus` must be a whole number above 0, not `{cells[1][:40]}`"
    if work is None or not 0 < work <= MAX_SECONDS:
        return f"`duration_s` must be seconds above 0, not `{cells[2][:40]}`"
    return Job(name=f"job-{number}", arrives_s=arrives, gpus=int(gpus), work_s=work)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def job_of_task(path: Path, duration_s: float) -> Job:
    """Return a job with the GPUs of a task file that computes for a time (s). SpecError for a wrong file.

    Its slices follow the policy; other rules of the task are not looked at.
    """
    task = read_task(path).task
    gpus = sum(group.topology.nodes * group.gpus for group in placed_groups(task).groups)
    if gpus == 0:
        refuse(f"task `{task.name}` has no GPUs", where=str(path), hint="set `gpus` in the task")
    return Job(name=task.name, arrives_s=0.0, gpus=gpus, work_s=duration_s)
