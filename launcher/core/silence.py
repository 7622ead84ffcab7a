"""A node that we cannot see: who else says that it is gone, and what proves that nothing of the run can run there."""

SELF_STOP = 15.0
"""A keeper that the head's host has not answered for so long kills its ranks and its Ray (s, suspension included)."""
MARGIN = 3.0
"""How much longer we wait than that: a keeper looks each second, and clocks of machines run a little apart (s)."""
EXPIRED = SELF_STOP + MARGIN
POPULATION = 60.0
"""The head's keeper counts on nodes that it has heard within so long (s): less than half of them, and it is cut off."""
GRACE = 8.0
"""How long each witness must have missed a node before its word counts (s)."""
