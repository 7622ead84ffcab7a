"""The recovery policy of a group, by our keys or SkyPilot's `job_recovery`."""

from launcher.config.schema.fields import Field, section
from launcher.config.schema.scalars import Choice, Duration, Integer, Number
from launcher.config.task.skypilot_keys import MAX_RESTARTS, RESTARTS
from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.values import Values
from launcher.core.model.task import OnNoSpare, OnStraggler, RecoveryPolicy, RestartWith

RECOVERY = section(
    Field(
        name="max_restarts",
        doc="Restarts after failures of the program. Failures of nodes are always recovered from, and do not count.",
        type=Integer(high=MAX_RESTARTS),
        default=0,
    ),
    Field(
        name="node_attempts",
        doc="Restarts on the same node before it is marked as failed.",
        type=Integer(high=1000),
        default=2,
    ),
    Field(
        name="restart_with",
        doc="What restarts when a rank fails: the whole run, its group, or only this member.",
        type=Choice(choices=("run", "group", "member")),
        default="run",
    ),
    Field(
        name="on_no_spare",
        doc="What to do if a node must be replaced and no spare node is available.",
        type=Choice(choices=("wait", "relocate", "shrink", "fail")),
        default="wait",
    ),
    Field(
        name="hang_after",
        doc="Seconds after which a rank counts as hung if it writes neither its log nor its heartbeat file.",
        type=Duration(above=True),
    ),
    Field(
        name="straggler_factor",
        doc="How many times as long as its peers a rank may work on a step before it is called a straggler.",
        type=Number(low=1, above=True, high=100),
        default=1.1,
    ),
    Field(
        name="on_straggler",
        doc="What to do about a straggler: say so, note it as an incident of its node too, for checks of the node, or "
        "also replace the node by a spare, once for each rank; all ranks restart for that.",
        type=Choice(choices=("report", "check", "replace")),
        default="report",
    ),
    Field(
        name="grow_after",
        doc="Seconds for which there has to be room for one more slice before a group with a range of slices grows.",
        type=Duration(),
        default=300,
    ),
)


def read_recovery(own: Values, task: Values, out: Diagnostics) -> RecoveryPolicy:
    """Return the policy of a group, completed by the task and the defaults."""
    default = RecoveryPolicy()
    asked = own.section("recovery").over(task.section("recovery"))
    if own.has("driver") and asked.get("restart_with", str) == RestartWith.MEMBER.value:
        what = "`restart_with: member` cannot be combined with `driver`, whose nodes restart together"
        out.mistake(asked.mark_of("restart_with"), what, "use `run` or `group`")
    restarts = (_restarts(own, out), _restarts(task, out), default.max_restarts)
    attempts = asked.get("node_attempts", int)
    return RecoveryPolicy(
        max_restarts=next(number for number in restarts if number is not None),
        node_attempts=default.node_attempts if attempts is None else attempts,
        restart_with=RestartWith(asked.get("restart_with", str) or default.restart_with.value),
        on_no_spare=OnNoSpare(asked.get("on_no_spare", str) or default.on_no_spare.value),
        hang_after=asked.get("hang_after", float),
        straggler_factor=asked.get("straggler_factor", float) or default.straggler_factor,
        on_straggler=OnStraggler(asked.get("on_straggler", str) or default.on_straggler.value),
        grow_after=default.grow_after if (after := asked.get("grow_after", float)) is None else after,
    )


def _restarts(owner: Values, out: Diagnostics) -> int | None:
    """Return the number of restarts, by our key or SkyPilot's; None without."""
    ours, theirs = owner.section("recovery"), owner.section("resources").section("job_recovery")
    mine, other = ours.get("max_restarts", int), theirs.get(RESTARTS, int)
    if mine is not None and other is not None and mine != other:
        what = f"`{RESTARTS}: {other}` contradicts `max_restarts: {mine}`"
        out.mistake(theirs.mark_of(RESTARTS), what, "remove one of the two")
    return other if mine is None else mine
