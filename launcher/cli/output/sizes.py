"""Advice on the size of slices as text and JSON."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from launcher.admission.slice_sizes import SizeReport
from launcher.cli.output.console import clean
from launcher.cli.output.table import table
from launcher.core.model.text import count, span
from launcher.core.planner.size_advice import SizeAdvice
from launcher.core.planner.sizing import SizeLine

_HEADER = (
    *("GPUS", "NODES", "SPARES", "SLICES", "USABLE", "RACK FITS", "RESTARTS/WEEK", "IN PLACE", "REQUEUE", "PROGRESS"),
    *("SPARE GPUS", "CHECKPOINT", "NOTE"),
)


def sizes_text(report: SizeReport) -> str:
    """Return the job, the faults, a table of all choices, and the best of them."""
    return "\n".join(map(clean, _text(report)))


def job_text(report: SizeReport) -> str:
    """Return the job and its fleet in one line."""
    advice, fleet = report.advice, report.advice.fleet
    gpus = advice.job.nodes * fleet.gpus_per_node
    racks = f"{count(fleet.racks, 'rack')} of {count(fleet.nodes_per_rack, 'node')}"
    each = f"{count(fleet.gpus_per_node, 'GPU')} a node"
    return f"{count(gpus, 'GPU')} ({count(advice.job.nodes, 'node')}) on {racks}, {each}"


def _text(report: SizeReport) -> Iterator[str]:
    advice = report.advice
    yield f"job: {job_text(report)}"
    yield f"faults: {report.model.rate.source}"
    yield f"  1 fault of a node in {_days(report.node_days)}, {report.down:.2%} of nodes in repair"
    if report.days_between is not None:
        low, high = report.days_between
        yield f"  95% interval: 1 fault in {_days(low)} to {_days(high)}"
    yield ""
    yield table(_HEADER, [_row(line, advice) for line in advice.lines])
    yield ""
    least = count(advice.least_nodes * advice.fleet.gpus_per_node, "GPU")
    yield f"best of slices with at least {least} (`--min-slice`):"
    yield f"  {advice.reason}"
    if advice.best is not None and (interval := _interval(advice.best.line)):
        yield f"  Write a checkpoint every {interval}; a write takes {_short(advice.job.write_s)}."
    if advice.own is not None:
        yield f"your task: {advice.own.name} a slice, {advice.own.progress:.1%} progress"


def _row(line: SizeLine, advice: SizeAdvice) -> Sequence[str]:
    return (
        str(line.slice_nodes * advice.fleet.gpus_per_node),
        str(line.slice_nodes),
        str(line.spares),
        str(line.slices),
        f"{line.usable:.1%}",
        f"{line.holds:.2%}",
        f"{line.restarts_per_week:.2f}",
        f"{line.goodput_in_place:.2%}",
        f"{line.goodput_requeue:.2%}",
        f"{line.progress:.1%}",
        str(line.spare_gpus),
        _interval(line),
        ", ".join(marks(line, advice)),
    )


def marks(line: SizeLine, advice: SizeAdvice) -> Iterator[str]:
    """Return what is special about a line: the best, the task's own, without room for the whole job."""
    if advice.best is not None and line == advice.best.line:
        yield "best"
    if line == advice.own:
        yield "your task"
    if not line.fits:
        yield "no room"


def _interval(line: SizeLine) -> str:
    """Return the best checkpoint interval, to the minute where it is long; nothing where a write costs nothing."""
    if not 0 < line.interval_s < math.inf:
        return ""
    return _short(round(line.interval_s / 60) * 60 if line.interval_s >= 600 else line.interval_s)


def _short(seconds: float) -> str:
    return span(seconds) if seconds >= 10 else f"{seconds:.2g}s"


def _days(days: float) -> str:
    return count(round(days), "day") if days >= 10 else f"{days:.2g} days"


def sizes_json(report: SizeReport) -> dict[str, Any]:
    """Return the same as `size -o json` writes it: shares from 0 to 1, times in seconds."""
    advice, fleet, job = report.advice, report.advice.fleet, report.advice.job
    return {
        "fleet": {
            "inventory": report.inventory,
            "accelerator": report.accelerator,
            "racks": fleet.racks,
            "nodes_per_rack": fleet.nodes_per_rack,
            "gpus_per_node": fleet.gpus_per_node,
            "notes": list(report.notes),
        },
        "job": {
            "gpus": job.nodes * fleet.gpus_per_node,
            "nodes": job.nodes,
            "checkpoint_write_s": job.write_s,
            "restart_s": job.in_place_s,
            "requeue_s": job.requeue_s,
        },
        "faults": {
            "source": report.model.rate.source,
            "per_gpu_day": report.model.rate.per_gpu_day,
            "node_days": report.node_days,
            "node_days_95": list(report.days_between) if report.days_between else None,
            "nodes_down": report.down,
        },
        "min_slice_gpus": advice.least_nodes * fleet.gpus_per_node,
        "sizes": [_line_json(line, advice) for line in advice.lines],
        "best": advice.best and {**_choice(advice.best.line), "reason": advice.reason},
        "your_task": advice.own and _choice(advice.own),
        "reason": advice.reason,
    }


def _choice(line: SizeLine) -> dict[str, int]:
    return {"slice_nodes": line.slice_nodes, "spares": line.spares}


def _line_json(line: SizeLine, advice: SizeAdvice) -> dict[str, Any]:
    return {
        **_choice(line),
        "slice_gpus": line.slice_nodes * advice.fleet.gpus_per_node,
        "slices": line.slices,
        "usable": line.usable,
        "rack_fits": line.holds,
        "room": line.room,
        "fits": line.fits,
        "restarts_per_week": line.restarts_per_week,
        "goodput_in_place": line.goodput_in_place,
        "goodput_requeue": line.goodput_requeue,
        "progress": line.progress,
        "spare_gpus": line.spare_gpus,
        "checkpoint_interval_s": line.interval_s if 0 < line.interval_s < math.inf else None,
    }
