"""Ranks that are slower than their peers.

FALCON takes 10 % for a slowdown (https://arxiv.org/abs/2410.12588), ARGUS 5 % over 50 steps. We take the first limit,
over as many steps: ranks with a little more work than others are no stragglers. Ranks that train in step all take as
long as the slowest, so that only the time for which each computes itself is compared.
"""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from launcher.core.model.observation import RankStep
from launcher.core.model.run import MemberName

STEPS = 50
"""Over how many steps a rank has to be slower: one slow batch or checkpoint says nothing."""

LEAST_PEERS = 3
"""How many peers have to say how long they took: of two ranks nobody knows which is the slow one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """A rank, the seconds of its own work in a step, and the median of its peers."""

    member: MemberName
    own: float
    median: float
    peers: int

    @property
    def message(self) -> str:
        """Return how much slower it is."""
        more = (self.own / self.median - 1) * 100
        took = f"{self.own:.3g} s of own work in a step, not {self.median:.3g} s"
        return f"{self.member} is {more:.0f} % slower than its {self.peers} peers: {took}, over {STEPS} steps"


def stragglers(
    steps: Mapping[MemberName, RankStep], *, factor: float, known: Iterable[MemberName] = ()
) -> tuple[Straggler, ...]:
    """Return the ranks that are slower than the median of their peers by a factor, the slowest first.

    `steps` are those of ranks that do the same work. One that is `known` stays a straggler until half of the
    difference is gone.
    """
    own = {name: one.own for name, one in steps.items() if one.own is not None and one.over >= STEPS}
    if len(own) <= LEAST_PEERS:
        return ()
    held, found = set(known), []
    for name, took in own.items():
        median = statistics.median(other for peer, other in own.items() if peer != name)
        limit = 1 + (factor - 1) / 2 if name in held else factor
        if median > 0 and took >= median * limit:
            found.append(Straggler(member=name, own=took, median=median, peers=len(own) - 1))
    return tuple(sorted(found, key=lambda one: -one.own / one.median))
