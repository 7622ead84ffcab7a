"""A node that we cannot see: who else says that it is gone, and what proves that nothing of the run can run there."""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import HeadSeen, Observation, Seen

SELF_STOP = 15.0
"""An agent that the head's host has not answered for so long kills its ranks and its Ray (s, suspension included)."""
MARGIN = 3.0
"""How much longer we wait than that: an agent looks each second, and clocks of machines run a little apart (s)."""
EXPIRED = SELF_STOP + MARGIN
POPULATION = 60.0
"""The head's agent counts on nodes that it has heard within so long (s): less than half of them, and it is cut off."""
GRACE = 8.0
"""How long each witness must have missed a node before its word counts (s)."""


class Silence(Enum):
    """What may be thought of a node that does not answer us."""

    SUSPECT = "suspect"
    DOWN = "down"
    UNSEEN = "unseen"


def silence(
    seen: Observation, since: Mapping[str, float], node: NodeName, *, head: NodeName | None, in_ray: bool | None
) -> Silence:
    """Return what an unseen node is: DOWN takes two witnesses, of whom we are one; one that says it answers is enough
    against that. `in_ray` is what Ray's table says of its raylet, None where it says nothing."""
    if alive(seen, node, head=head, in_ray=in_ray) is not None:
        return Silence.UNSEEN
    if quiet(seen, since, node) < GRACE:
        return Silence.SUSPECT
    return Silence.DOWN if any(True for _ in against(seen, node, head=head, in_ray=in_ray)) else Silence.UNSEEN


def quiet(seen: Observation, since: Mapping[str, float], node: NodeName) -> float:
    """Return for how long we have not seen a node (s)."""
    return seen.at - since.get(f"unseen:{node}", seen.at)


def against(seen: Observation, node: NodeName, *, head: NodeName | None, in_ray: bool | None = None) -> Iterator[str]:
    """Return who besides us says that a node is gone, in words."""
    unheard = heard(seen, node)
    if node == head:
        missed = sum(1 for silent in _votes(seen).values() if silent >= GRACE)
        if missed:
            yield f"{missed} of its peers have no answer from it"
    elif unheard is not None and unheard >= GRACE:
        yield f"the head has not heard it for {unheard:.0f} s"
    if in_ray is False:
        yield "Ray holds it for dead"
    reached = seen.reached.get(node)
    if reached is not None and not reached.answers:
        yield f"{reached.by} cannot reach it"


def heard(seen: Observation, node: NodeName) -> float | None:
    """Return how long ago the head's agent last heard a node's (s); None where it does not say."""
    head = seen.head.head if isinstance(seen.head, HeadSeen) else None
    return head.heard.get(node) if head else None


def expired(seen: Observation, node: NodeName) -> str | None:
    """Return in words that the agent of an unseen node has stopped itself; None while that is not certain."""
    unheard = heard(seen, node)
    if unheard is None or unheard < EXPIRED:
        return None
    return f"it has stopped itself, unheard by the head for {unheard:.0f} s"


def head_expired(seen: Observation, claimed: Iterable[NodeName], head: NodeName | None) -> str | None:
    """Return in words that the head's unseen host is cut off and its agent has ended it; None while not certain.

    The head's agent gives up when it hears less than half of those that it heard in the last minute. So more than
    half must miss it, all of them for long enough, and all of them from one minute; others count for it, but for those
    that were out of that minute.
    """
    votes = _votes(seen)
    least = sorted({silent for silent in votes.values() if silent >= EXPIRED})
    everybody = {*claimed, *votes} | ({head} if head is not None else set())
    for start in least:
        missing = [node for node, silent in votes.items() if start <= silent < start + POPULATION - EXPIRED]
        out = sum(1 for silent in votes.values() if silent >= start + POPULATION)
        if len(missing) * 2 > len(everybody) - out:
            return f"its host is cut off: {len(missing)} of its peers have no answer from it for {start:.0f} s"
    return None


def _votes(seen: Observation) -> dict[NodeName, float]:
    """Return how long the head's host has been silent to each node that we see and that listens for it (s)."""
    return {
        name: view.agent.head_silent
        for name, view in seen.nodes.items()
        if isinstance(view, Seen) and view.agent is not None and view.agent.head_silent is not None
    }


def alive(seen: Observation, node: NodeName, *, head: NodeName | None, in_ray: bool | None = None) -> str | None:
    """Return in words who has just heard a node that we do not see; None where nobody says so."""
    reached = seen.reached.get(node)
    if reached is not None and reached.answers:
        return f"{reached.by} reaches it"
    if node == head:
        hearing = sum(1 for silent in _votes(seen).values() if silent < GRACE)
        return f"{hearing} of its peers hear it" if hearing else None
    unheard = heard(seen, node)
    if unheard is not None:  # Ray hears no more than its head's host does, and believes for longer
        return f"the head has heard it {unheard:.0f} s ago" if unheard < GRACE else None
    return "Ray holds it for alive" if in_ray is True else None
