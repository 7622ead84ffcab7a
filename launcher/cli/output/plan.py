"""A placement as text, and why each slice got its rack."""

from collections.abc import Iterator, Sequence

from launcher.api.plan import FragmentationChange, PlannedCheck
from launcher.cli.output.console import clean
from launcher.cli.output.cost import cost_lines
from launcher.cli.output.shortfall import level_header, not_free
from launcher.cli.output.table import table
from launcher.cli.redact import Redactor, command_passwords
from launcher.core.control.slice_count import grows_when, small_groups
from launcher.core.model.inventory import ANY_LEVEL, Inventory
from launcher.core.model.nodeset import fold
from launcher.core.model.placement import Placement, Slice, group_of
from launcher.core.model.task import Task
from launcher.core.model.text import count, span
from launcher.core.placement.explain import SurveyedRack
from launcher.core.placement.slice_range import as_placed
from launcher.core.planner.placement_cost import SliceCosts


def plan_text(
    task: Task, placement: Placement, costs: SliceCosts, fleet: Inventory | None, *, verbose: bool = False
) -> str:
    """Return the plan: a table of slices, why they got their racks, and what they cost."""
    return "\n".join((*_plan(task, placement, fleet), *cost_lines(placement.slices, costs, verbose=verbose)))


def racks_text(part: Slice, fleet: Inventory | None) -> str:
    """Return where a slice is: its rack, its domain, or the racks of one that may be anywhere."""
    if part.rack is not None or part.place != ANY_LEVEL or fleet is None:
        return part.rack or part.place
    nodes = set(part.nodes)
    return fold({node.rack for node in fleet.nodes if node.name in nodes}) or part.place


def start_check_text(check: PlannedCheck) -> str:
    """Return what is checked before the start, and how long that may take."""
    each = {"node": "each node alone", "pair": "pairs of nodes", "slice": "each slice"}[check.scope]
    limits = f"up to {span(check.time_limit)} a test, {span(check.total)} in total"
    return f"  before the start, `before_start` checks {each}: {limits}"


def source_text(path: str, to: str) -> str:
    """Return what is sent: a workdir, or a file mount and its target."""
    return _line(f"`{path}` to `{to}`" if to else f"workdir `{path}`")


def commands_here(task: Task, fleet: Inventory) -> Iterator[str]:
    """Return the commands of task and inventory that run on this machine, without passwords."""
    found = [("on_event", task.on_event), ("fence_command", fleet.fence_command), ("power_query", fleet.power_query)]
    for key, command in found[:1] if fleet.capabilities.imaginary else found:
        if command:
            yield _line(f"runs on this machine: `{key}`: {Redactor(command_passwords(command)).text(command)}")


def _line(text: str) -> str:
    """Return a text of somebody else's file as one line: a second one could say anything."""
    return clean(text).replace("\n", "\\n")


def agreement_text(task: Task, fleet: Inventory) -> str:
    """Return what is sent to each node, and what runs on this machine; empty where there is nothing."""
    mounts = [source_text(source, to) for to, source in task.file_mounts.items()]
    workdir = [source_text(str(one), "") for one in (task.git, task.workdir) if one is not None]
    sent = [] if fleet.capabilities.imaginary else [f"to each node: {one}" for one in (*workdir, *mounts)]
    for to, bucket in task.bucket_mounts.items() if not fleet.capabilities.imaginary else ():
        sent += [_line(f"to `{bucket.url}`: `{path}`") for path in bucket.uploads]
        sent.append(_line(f"{'mounts' if bucket.mounted else 'copies'} `{bucket.url}` at `{to}` on each node"))
    return "\n".join((*sent, *commands_here(task, fleet)))


def survey_text(surveyed: Sequence[SurveyedRack], score: FragmentationChange) -> str:
    """Return a table of candidate racks for each group, and the fragmentation."""
    return "\n".join(_survey(surveyed, score))


def _plan(task: Task, placement: Placement, fleet: Inventory | None) -> Iterator[str]:
    members = len({name for part in placement.slices for name in part.nodes})
    spares = len({name for part in placement.slices for name in part.spares})
    with_spares = f", {count(spares, 'spare')}" if spares else ""
    yield clean(
        f"plan for `{task.name}`: {count(len(placement.slices), 'slice')}, {count(members, 'node')}{with_spares}"
    )
    rows = [(part.key, racks_text(part, fleet), fold(part.nodes), fold(part.spares)) for part in placement.slices]
    yield table(("SLICE", "RACK", "NODES", "SPARES"), rows, indent="  ")
    yield from _reasons(placement)
    for group in small_groups(as_placed(task, placement.slices)):
        rule = group.topology
        yield clean(f"  {group.name}: only {rule.slices} of {rule.max_slices} slices fit now; {grows_when(group)}")


def _reasons(placement: Placement) -> Iterator[str]:
    """Return each reason once, with the slices of a group and their racks."""
    same: dict[tuple[str, str], list[Slice]] = {}
    for part, reason in zip(placement.slices, placement.reasons, strict=True):
        same.setdefault((part.group, reason), []).append(part)
    for (_, reason), parts in same.items():
        slices = fold(part.key for part in parts)
        racks = fold(part.rack or part.place for part in parts if part.place != ANY_LEVEL)
        yield clean(f"  {slices} -> {racks}: {reason}" if racks else f"  {slices}: {reason}")


def _survey(surveyed: Sequence[SurveyedRack], score: FragmentationChange) -> Iterator[str]:
    for group in dict.fromkeys(one.group for one in surveyed):
        same: dict[tuple[str, ...], list[SurveyedRack]] = {}
        own = [one for one in surveyed if one.group == group]
        for one in own:
            columns = (f"{one.before.free}/{one.before.total}", str(one.left), one.reason, not_free(one.before))
            same.setdefault(columns, []).append(one)
        rows = [
            (fold(one.before.rack for one in racks), free, left, _result(reason, racks), excluded)
            for (free, left, reason, excluded), racks in same.items()
        ]
        yield clean(f"candidates for `{group}`:")
        yield table((level_header(own[0].within), "FREE", "LEFT", "RESULT", "NOT FREE"), rows, indent="  ")
    yield f"fragmentation score: {score.before} before, {score.after} after (Slurm's rule, 0 is best)"


def _result(reason: str, racks: Sequence[SurveyedRack]) -> str:
    """Return a reason, with the slices of the group in these racks, if any."""
    slices = fold(key for one in racks for key in one.slices if group_of(key) == one.group)
    return f"{reason} for {slices}" if slices else reason
