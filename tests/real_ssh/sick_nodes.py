"""What becomes of a run of which one node is sick: nothing can be written there, or nothing more can be started.

The table is data: for each sickness, each moment and each place the state in which the run has to be within `WITHIN_S`.
"""

from dataclasses import dataclass
from itertools import product

WITHIN_S = 60.0
"""Seconds from the blow (or from `up`) in which a run is in the state of its row."""

SLOW = 2.0
"""Times are for racks, whose nodes have cores of their own: here two cores start all of them."""

FULL, READ_ONLY, LIMITED = "full", "read-only", "process-limited"
BEFORE, BETWEEN, MIDWAY = "before the launch", "between doctor and start", "in mid-run"
AT_END = "as ranks end"
RANK_0, ELSEWHERE = "rank 0 and the head", "another rank"

MOVED = "runs without the node"
"""Every rank runs, none on the sick node; no restart is charged; once told to, the program ends well."""

REFUSED = "refused"
"""`up` ends with 3 (it knew before) or 4 (the launch failed), and names the node; nothing runs."""

HELD = "on hold"
"""The run waits for another node, as `on_no_spare: wait` says, and names the node and what was tried there."""

ENDED = "ended well"
"""Every rank has ended with 0, in the first attempt."""

_SHORT = {
    FULL: "full",
    READ_ONLY: "ro",
    LIMITED: "pids",
    BEFORE: "before",
    BETWEEN: "between",
    MIDWAY: "mid",
    AT_END: "end",
}


@dataclass(frozen=True)
class Cell:
    """A sickness of the node of a rank, when it comes, and whether another node could take its place."""

    sickness: str
    moment: str
    place: str
    spare: bool

    @property
    def expected(self) -> str:
        """The state of the run `WITHIN_S` seconds after the blow."""
        return EXPECTED[self.moment, self.spare]

    @property
    def name(self) -> str:
        """A name for a run."""
        place = "head" if self.place == RANK_0 else "rank"
        return f"{_SHORT[self.sickness]}{_SHORT[self.moment]}{place}{'spare' if self.spare else 'none'}"


EXPECTED = {
    (BEFORE, True): MOVED,
    (BEFORE, False): REFUSED,
    (BETWEEN, True): MOVED,
    (BETWEEN, False): REFUSED,
    (MIDWAY, True): MOVED,
    (MIDWAY, False): HELD,
    (AT_END, False): ENDED,
}
"""By moment and spare. Neither the sickness nor the place of the node makes a difference."""

CELLS = tuple(
    Cell(*one)
    for one in product((FULL, READ_ONLY, LIMITED), (BEFORE, BETWEEN, MIDWAY), (RANK_0, ELSEWHERE), (True, False))
)

ALWAYS = (
    Cell(FULL, BETWEEN, RANK_0, False),
    Cell(FULL, MIDWAY, ELSEWHERE, True),
    Cell(READ_ONLY, BETWEEN, RANK_0, True),
    Cell(READ_ONLY, MIDWAY, ELSEWHERE, False),
    Cell(LIMITED, BEFORE, ELSEWHERE, True),
    Cell(LIMITED, MIDWAY, RANK_0, True),
)
"""Those that are tried each time; the others in a soak."""
