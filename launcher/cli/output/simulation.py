"""What a simulation of a fleet came to, as text and JSON."""

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from launcher.cli.output.console import clean
from launcher.cli.output.table import table
from launcher.core.model.text import count, span
from launcher.simulate.experiment import Estimate, Experiment, PolicyResult, estimate
from launcher.simulate.measures import Spent
from launcher.simulate.simulation import Measured

ROWS_OVER_TIME = 6


def simulation_text(experiment: Experiment, results: Sequence[PolicyResult]) -> str:
    """Return the report: what was simulated, then the GPU time by cause, incidents, waits and racks by policy."""
    return "\n".join(clean(line) for line in _lines(experiment, results))


def _lines(experiment: Experiment, results: Sequence[PolicyResult]) -> Iterator[str]:
    yield from _what(experiment, results)
    names = [result.policy.name for result in results]
    yield ""
    yield table(("GPU TIME", *names), [_row(cause, results) for cause in Spent])
    if len(results) == 2:
        yield _difference(*results)
    yield ""
    yield table(("INCIDENTS", *names), list(_incidents(results)))
    for result in results:
        of = f" of `{result.policy.name}`" if len(results) > 1 else ""
        yield ""
        yield f"waits until the first start{of}:"
        yield table(("GPUS", "JOBS", "MEDIAN", "MEAN", "95 %", "NEVER STARTED"), list(_waits(result)), indent="  ")
        seeds = ", seed 1" if len(result.outcomes) > 1 else ""
        yield f"over time{of}{seeds}:"
        yield table(("DAY", "IN USE", "WHOLE RACKS", "FRAGMENTED", "WAITING"), list(_over_time(result)), indent="  ")


def _what(experiment: Experiment, results: Sequence[PolicyResult]) -> Iterator[str]:
    nodes = [node for node in experiment.inventory.nodes if node.drained is None]
    racks = count(len({node.rack for node in nodes}), "rack")
    seeds = count(experiment.seeds, "seed")
    days = "1 day" if experiment.days == 1 else f"{experiment.days:g} days"
    yield f"{experiment.inventory.name}: {racks}, {count(len(nodes), 'node')}, {days}, {seeds}"
    jobs = results[0].of(lambda outcome: outcome.jobs).mean
    asked = f", {experiment.load:.0%} of the GPU time" if experiment.mix or experiment.repeat else ""
    yield f"jobs: {jobs:,.0f} a seed{asked}, {_source(experiment)}"
    if experiment.left_out:
        sizes = ", ".join(f"{gpus:,}" for gpus in experiment.left_out)
        yield f"  without those of {sizes} GPUs, which do not fit or were left out"
    faults = results[0].of(lambda outcome: outcome.incidents.faults).mean
    yield f"faults: {faults:,.1f} a seed, {experiment.model.rate.source}"


def _source(experiment: Experiment) -> str:
    if experiment.mix is None:
        return "given tasks at random times" if experiment.repeat else "from a file"
    return f"mix `{experiment.mix.name}`: {experiment.mix.source}"


def _row(cause: Spent, results: Sequence[PolicyResult]) -> tuple[str, ...]:
    return (cause.value, *(_percent(result.shares[cause]) for result in results))


def _percent(share: Estimate) -> str:
    margin = "" if share.margin is None else f" ± {100 * share.margin:.2f}"
    return f"{100 * share.mean:6.2f}{margin} %"


def _difference(first: PolicyResult, second: PolicyResult) -> str:
    more = second.against(first)
    margin = "" if more.margin is None else f" ± {100 * more.margin:.2f}"
    return f"{second.policy.name} against {first.policy.name}: {100 * more.mean:+.2f}{margin} points productive"


def _incidents(results: Sequence[PolicyResult]) -> Iterator[tuple[str, ...]]:
    yield "faults that hit a run", *(_mean(one, lambda outcome: outcome.incidents.hits) for one in results)
    yield "recoveries", *(_mean(one, lambda outcome: outcome.incidents.recovered) for one in results)
    yield "  median time", *(_recovery(one) for one in results)
    yield "waits for a node", *(_mean(one, lambda outcome: outcome.incidents.waited) for one in results)
    yield "queued again", *(_mean(one, lambda outcome: outcome.incidents.requeued) for one in results)
    yield "preempted", *(_mean(one, lambda outcome: outcome.incidents.preempted) for one in results)
    yield "slices moved", *(_mean(one, lambda outcome: outcome.incidents.moved) for one in results)
    yield "GPU-hours of moves", *(_mean(one, lambda outcome: outcome.incidents.move_gpu_hours) for one in results)


def _mean(result: PolicyResult, measure: Callable[[Measured], float]) -> str:
    return f"{result.of(measure).mean:,.1f}"


def _recovery(result: PolicyResult) -> str:
    times = [took for outcome in result.outcomes for took in outcome.incidents.recovery_s]
    return f"{median(times):.1f} s" if times else "-"


def _waits(result: PolicyResult) -> Iterator[tuple[str, ...]]:
    sizes = sorted({line.gpus for outcome in result.outcomes for line in outcome.waits})
    for gpus in sizes:
        lines = [line for outcome in result.outcomes for line in outcome.waits if line.gpus == gpus]
        yield (
            f"{gpus:,}",
            f"{sum(line.jobs for line in lines):,}",
            *(
                span(estimate(values).mean)
                for values in (
                    [line.median_s for line in lines],
                    [line.mean_s for line in lines],
                    [line.p95_s for line in lines],
                )
            ),
            f"{sum(line.waiting for line in lines):,}",
        )


def _over_time(result: PolicyResult) -> Iterator[tuple[str, ...]]:
    samples = result.outcomes[0].samples
    each = max(1, len(samples) // ROWS_OVER_TIME)
    for sample in samples[each - 1 :: each]:
        yield (
            f"{sample.at_s / 86_400:.1f}",
            f"{sample.used:.0%}",
            str(sample.whole_racks),
            f"{sample.fragments:.1%}",
            str(sample.waiting),
        )


def simulation_json(experiment: Experiment, results: Sequence[PolicyResult]) -> dict[str, object]:
    """Return the same with every seed and sample, for scripts."""
    return {
        "inventory": experiment.inventory.name,
        "nodes": sum(node.drained is None for node in experiment.inventory.nodes),
        "days": experiment.days,
        "load": experiment.load if experiment.mix or experiment.repeat else None,
        "mix": None if experiment.mix is None else experiment.mix.name,
        "left_out_gpus": list(experiment.left_out),
        "faults": experiment.model.rate.source,
        "policies": [_policy_json(result) for result in results],
        "difference": _estimate_json(results[1].against(results[0])) if len(results) == 2 else None,
    }


def _policy_json(result: PolicyResult) -> dict[str, object]:
    return {
        "name": result.policy.name,
        "gpu_time": {cause.name.lower(): _estimate_json(share) for cause, share in result.shares.items()},
        "seeds": [_outcome_json(outcome) for outcome in result.outcomes],
    }


def _estimate_json(found: Estimate) -> dict[str, object]:
    return {"mean": round(found.mean, 6), "margin_95": None if found.margin is None else round(found.margin, 6)}


def _outcome_json(outcome: Measured) -> dict[str, object]:
    incidents = outcome.incidents
    return {
        "jobs": outcome.jobs,
        "gpu_time": {cause.name.lower(): round(share, 6) for cause, share in outcome.shares.items()},
        "faults": incidents.faults,
        "hits": incidents.hits,
        "recoveries": incidents.recovered,
        "recovery_s": [round(took, 1) for took in incidents.recovery_s],
        "waits_for_node": incidents.waited,
        "queued_again": incidents.requeued,
        "preempted": incidents.preempted,
        "slices_moved": incidents.moved,
        "move_gpu_hours": round(incidents.move_gpu_hours, 2),
        "waits": [
            {
                "gpus": line.gpus,
                "jobs": line.jobs,
                "median_s": round(line.median_s, 1),
                "mean_s": round(line.mean_s, 1),
                "p95_s": round(line.p95_s, 1),
                "never_started": line.waiting,
            }
            for line in outcome.waits
        ],
        "samples": [
            {
                "at_s": round(sample.at_s),
                "in_use": round(sample.used, 4),
                "whole_racks": sample.whole_racks,
                "fragmented": round(sample.fragments, 4),
                "waiting": sample.waiting,
            }
            for sample in outcome.samples
        ],
    }
