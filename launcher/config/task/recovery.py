"""The recovery policy of a group, by our keys or SkyPilot's `job_recovery`."""

from launcher.config.task.skypilot_keys import RESTARTS
from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.values import Values
from launcher.core.model.task import OnNoSpare, OnStraggler, RecoveryPolicy, RestartWith


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
