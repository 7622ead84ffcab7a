"""A node out of sight: who misses it, and what proves that nothing runs there.

A witness says that a machine answers; a proof says that nothing of the run can run there. A proof outweighs every
witness: a machine that was installed anew answers its neighbours, and runs nothing of ours.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from launcher.core.control.timing import EXPIRED_S, HEAD_EXPIRED_S, POPULATION_S, WITNESS_S
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import HeadSeen, Observation, Seen
from launcher.core.model.record import Record
from launcher.core.model.run_index import RunIndex
from launcher.core.model.text import count

SELF_FENCED = "self-fenced"
"""How the proof begins that an agent has stopped itself: it may still be there, without ranks and with its lease."""


@dataclass(frozen=True, slots=True)
class HeadPlace:
    """Where the head of a run is, and whose word counts for it.

    `node` is None for the inventory's machine. `leased` are the nodes of the run. `bound`: nothing of the run on that
    machine outlives the head's agent, so that a machine which refuses its heartbeats runs nothing.
    """

    node: NodeName | None
    leased: Collection[NodeName]
    bound: bool

    @classmethod
    def of(cls, node: NodeName | None, record: Record, index: RunIndex) -> "HeadPlace":
        """Return the place of a run's head on a node."""
        return cls(node, record.leased, index.head_apart if node is None else record.head_bound)


class Silence(Enum):
    """What a node out of sight may be."""

    SUSPECT = "suspect"
    DOWN = "down"
    UNSEEN = "unseen"


def silence(seen: Observation, node: NodeName, *, quiet: float, head: HeadPlace, in_ray: bool | None) -> Silence:
    """Return what a node is that we have not seen for `quiet` seconds.

    DOWN takes two witnesses that miss it, and we are one; a single witness that hears it is enough against that, but
    not against the proof that its agent has stopped itself. `in_ray`: whether Ray lists its raylet as alive, None where
    Ray does not list it.
    """
    if alive(seen, node, head=head, in_ray=in_ray) is not None:
        return Silence.UNSEEN
    if quiet < WITNESS_S:
        return Silence.SUSPECT
    missed = any(True for _ in against(seen, node, head=head.node, in_ray=in_ray))
    return Silence.DOWN if missed or self_stopped(seen, node, head) else Silence.UNSEEN


def against(seen: Observation, node: NodeName, *, head: NodeName | None, in_ray: bool | None = None) -> Iterator[str]:
    """Yield a sentence for each other witness that misses a node."""
    unheard = heard(seen, node)
    if node == head:
        missed = sum(1 for silent in _unheard(seen).values() if silent >= WITNESS_S)
        if missed:
            yield f"no answer to {count(missed, 'peer')}"
    elif unheard is not None and unheard >= WITNESS_S:
        yield f"no heartbeat at the head for {unheard:.0f} s"
    if in_ray is False:
        yield "Ray lists it as dead"
    reached = seen.reached.get(node)
    if reached is not None and not reached.answers:
        yield f"unreachable from {reached.by}"


def alive(seen: Observation, node: NodeName, *, head: HeadPlace, in_ray: bool | None = None) -> str | None:
    """Return which witness has just heard a node out of sight.

    None where none has, or where it is proven that the node's agent has stopped itself: then whatever answers there is
    not of the run.
    """
    if self_stopped(seen, node, head) is not None:
        return None
    reached, unheard = seen.reached.get(node), heard(seen, node)
    if node == head.node and (votes := _unheard(seen)):  # peers ask the head's agent itself, not only its machine
        hearing = sum(1 for silent in votes.values() if silent < WITNESS_S)
        return f"{count(hearing, 'peer')} still get answers" if hearing else None
    if reached is not None and reached.answers:
        return f"reachable from {reached.by}"
    if node == head.node:
        return None  # it hears itself, and Ray hears itself
    if unheard is not None:  # Ray hears no more than the head's machine does, and believes for longer
        return f"heartbeat at the head {unheard:.0f} s ago" if unheard < WITNESS_S else None
    return "Ray lists it as alive" if in_ray is True else None


def heard(seen: Observation, node: NodeName) -> float | None:
    """Return how long ago the head heard a node's agent (s); None if it does not say."""
    head = seen.head.head if isinstance(seen.head, HeadSeen) else None
    return head.heard.get(node) if head else None


def missed_for(seen: Observation, node: NodeName, *, quiet: float, head: NodeName | None) -> float:
    """Return for how long every witness that can say since when has missed a node that we have not seen (s)."""
    if node == head:
        return min([quiet, *_unheard(seen).values()])
    unheard = heard(seen, node)
    return quiet if unheard is None else min(quiet, unheard)


def self_stopped(seen: Observation, node: NodeName, head: HeadPlace) -> str | None:
    """Return the proof that the agent of a node, or of the head on it, has stopped itself; None without one."""
    return head_expired(seen, head) if node == head.node else expired(seen, node)


def expired(seen: Observation, node: NodeName) -> str | None:
    """Return the proof that the agent of a node has stopped itself; None without one."""
    unheard = heard(seen, node)
    if unheard is None or unheard < EXPIRED_S:
        return None
    return f"{SELF_FENCED}: no heartbeat at the head for {unheard:.0f} s"


def head_expired(seen: Observation, head: HeadPlace) -> str | None:
    """Return the proof that the head's agent has stopped itself; None without one.

    The head's agent stops when it hears less than half of the nodes that it heard within `POPULATION_S`. So more than
    half must miss it, each for `HEAD_EXPIRED_S`, and all of them within one such span; all others count for the head,
    but for those that were out of that span. A node that is refused misses it too, where nothing outlives the head's
    agent.
    """
    votes = _unheard(seen) if head.bound else _votes(seen)
    silences = sorted(votes.values())
    everybody = {*head.leased, *votes} | ({head.node} if head.node is not None else set())
    for start in silences[bisect_left(silences, HEAD_EXPIRED_S) :]:
        missing = bisect_left(silences, start + POPULATION_S - HEAD_EXPIRED_S) - bisect_left(silences, start)
        out = len(silences) - bisect_left(silences, start + POPULATION_S)
        if missing * 2 > len(everybody) - out:
            return f"{SELF_FENCED}: no answer to {count(missing, 'peer')} for {start:.0f} s"
    return None


def ray_table(seen: Observation) -> Mapping[tuple[str, int], bool]:
    """Return whether Ray lists each raylet as alive, by label and generation.

    A raylet listed twice is alive if one of the two is.
    """
    head = seen.head.head if isinstance(seen.head, HeadSeen) else None
    table: dict[tuple[str, int], bool] = {}
    for node in head.nodes if head else ():
        key = (node.slot, node.generation)
        table[key] = node.alive or table.get(key, False)
    return table


def _unheard(seen: Observation) -> dict[NodeName, float]:
    """Return how long nothing on the head's machine has taken the heartbeats of each node that we see (s).

    A machine that was installed anew refuses them, and so does one whose head's agent has ended.
    """
    votes = _votes(seen)
    for name in votes:
        view = seen.nodes[name]
        if isinstance(view, Seen) and view.agent is not None and view.agent.head_unheard is not None:
            votes[name] = max(votes[name], view.agent.head_unheard)
    return votes


def _votes(seen: Observation) -> dict[NodeName, float]:
    """Return how long the head's machine has not answered each node that we see (s)."""
    return {
        name: view.agent.head_silent
        for name, view in seen.nodes.items()
        if isinstance(view, Seen) and view.agent is not None and view.agent.head_silent is not None
    }
