"""What a look at a node of an imaginary fleet finds, by life and time."""

from launcher.core.model.observation import AgentReport, NodeView, Phase, RankReport, RankStep, Seen, Step, Unseen
from launcher.core.model.run import MemberName, RunId
from launcher.sim.lives import Life, RankLife
from launcher.sim.logs import ending

WORK_S = 0.8
"""How long a rank that says so works itself in a step of a second (s)."""
SLOWER = 1.5
"""How many times as long a slow rank works."""
STEPS = 50
"""Over how many steps an agent tells that: `runtime/steps.WINDOW`."""


def node_view(life: Life, node: str, run: RunId, now: float, *, head: bool = False) -> NodeView:
    """Return what is seen of a run on a node at a time.

    `head`: its agent has a head to follow.
    """
    if not life.reachable(now):
        return Unseen(message=f"no answer from `{node}`")
    if life.host.run != run:
        return Seen()
    if not life.agent(now):
        return Seen(leftovers=leftovers(life, now))
    since = life.host.agent_at or 0.0
    ranks = tuple(report(one, now) for one in life.ranks if one.rank.begun_at >= since)
    agent = AgentReport(
        setup=_setup_step(life, now),
        ray=_ray_step(life, since, now),
        ranks=ranks,
        head_silent=life.unheard(now) if head and life.hears(now) else None,
    )
    return Seen(agent=agent, leftovers=leftovers(life, now))


def leftovers(life: Life, now: float) -> int:
    """Return how many living raylets and ranks have no agent.

    Their own is gone, whatever agent is there now.
    """
    since = life.host.agent_at if life.agent(now) else None
    raylets = [one.raylet.begun_at for one in life.raylets if one.alive(now)]
    ranks = [one.rank.begun_at for one in life.ranks if one.alive(now)]
    return sum(1 for begun in (*raylets, *ranks) if since is None or begun < since)


def report(one: RankLife, now: float) -> RankReport:
    """Return an agent's status of a rank."""
    member, attempt = MemberName(one.rank.member), one.rank.attempt
    if one.alive(now):
        quiet, step = max(0.0, now - one.hangs), _step(one, now)
        return RankReport(member=member, attempt=attempt, running=True, quiet=quiet, step=step)
    tail = ending(one.code) if one.code else ()
    return RankReport(
        member=member, attempt=attempt, running=False, exit_code=one.code, ended_ago=now - one.ends, tail=tail
    )


def _step(one: RankLife, now: float) -> RankStep | None:
    """Return what a rank says of its steps, of a second each; None where it says nothing."""
    if one.slow is None:
        return None
    done = int(now - one.rank.begun_at)
    begins, ends = one.slow
    own = WORK_S * (SLOWER if begins <= now - STEPS / 2 < ends else 1.0)  # the median of the last steps
    return RankStep(step=done, over=min(done, STEPS), own=own)


def _setup_step(life: Life, now: float) -> Step:
    if life.setup is None:
        return Step()
    if now < life.setup.ends:
        return Step(phase=Phase.RUNNING)
    code = life.setup.code
    if code == 0:
        return Step(phase=Phase.DONE, exit_code=0)
    return Step(phase=Phase.FAILED, exit_code=code, tail=(f"setup: exit status {code}",))


def _ray_step(life: Life, since: float, now: float) -> Step:
    ours = [one for one in life.raylets if one.raylet.begun_at >= since]
    if not ours:
        return Step()
    newest = ours[-1]
    generation = newest.raylet.generation
    if newest.alive(now):
        return Step(phase=Phase.RUNNING, generation=generation)
    return Step(phase=Phase.FAILED, exit_code=1, tail=("the raylet was killed",), generation=generation)
