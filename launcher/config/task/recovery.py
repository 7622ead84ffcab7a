"""What is tried before a run is given up, by our keys and by SkyPilot's `job_recovery`."""

from launcher.config.task.skypilot import RESTARTS
from launcher.config.yaml.reading import Reading, Values
from launcher.core.model.task import OnNoSpare, RecoveryPolicy, RestartWith


def read_recovery(own: Values, task: Values, out: Reading) -> RecoveryPolicy:
    """Return the policy of a group: what it says itself, then what the task says, then the defaults of the core."""
    default = RecoveryPolicy()
    asked = own.section("recovery").over(task.section("recovery"))
    if own.has("driver") and asked.get("restart_with", str) == RestartWith.MEMBER.value:
        what = "`restart_with: member` beside `driver`: its nodes start and end with it"
        out.mistake(asked.mark_of("restart_with"), what, "choose `run` or `group`")
    restarts = (_restarts(own, out), _restarts(task, out), default.max_restarts)
    attempts = asked.get("node_attempts", int)
    return RecoveryPolicy(
        max_restarts=next(number for number in restarts if number is not None),
        node_attempts=default.node_attempts if attempts is None else attempts,
        restart_with=RestartWith(asked.get("restart_with", str) or default.restart_with.value),
        on_no_spare=OnNoSpare(asked.get("on_no_spare", str) or default.on_no_spare.value),
        hang_after=asked.get("hang_after", float),
    )


def _restarts(owner: Values, out: Reading) -> int | None:
    """Return how often a failed program starts again, by our name of it or by SkyPilot's."""
    ours, theirs = owner.section("recovery"), owner.section("resources").section("job_recovery")
    mine, other = ours.get("max_restarts", int), theirs.get(RESTARTS, int)
    if mine is not None and other is not None and mine != other:
        what = f"`{RESTARTS}: {other}` beside `max_restarts: {mine}`: they are two names of one number"
        out.mistake(theirs.mark_of(RESTARTS), what, "keep one of them")
    return other if mine is None else mine
