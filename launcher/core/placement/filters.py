"""Which nodes a group can use; and for each node it cannot use, the one reason that counts."""

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from fnmatch import translate

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL, GpuDriver, Node, RackName
from launcher.core.model.nodeset import NodeName, expand
from launcher.core.model.placement import Exclusion, Taken
from launcher.core.model.task import Group, TopologyRule
from launcher.core.placement.constraints import Bounds

_RANGE_IN_BRACKETS = re.compile(r"\[[^\]]*([0-9]{2,}-|-[0-9]{2,}|,|/)[^\]]*\]")


class Pattern:
    """Names that a task speaks of: globs, and ranges of numbers as in `r07-n[01-16]`.

    Read as a glob, `[01-16]` would stand for one character, and so never match what its writer meant.
    """

    __slots__ = ("_globs", "_names")

    def __init__(self, texts: Iterable[str]) -> None:
        spelled = [name for text in texts for name in _spell(text)]
        self._names = frozenset(name for name in spelled if not re.search(r"[*?\[]", name))
        globs = [translate(name) for name in spelled if name not in self._names]
        self._globs = re.compile("|".join(globs)) if globs else None

    def matches(self, name: str) -> bool:
        """Whether the pattern speaks of this name."""
        return name in self._names or (self._globs is not None and self._globs.match(name) is not None)


class Sieve:
    """What a group asks of a node, held against the inventory as it is now.

    `promised` are the nodes that other slices of the same task have got, `bounds` where those allow another.
    """

    def __init__(
        self,
        group: Group,
        taken: Mapping[NodeName, Taken],
        promised: AbstractSet[NodeName],
        bounds: Bounds | None = None,
    ) -> None:
        rule = group.topology
        self.group = group
        self.taken = taken
        self.promised = promised
        self.bounds = bounds
        self._kind = None if group.accelerator is None else group.accelerator.casefold()
        self._local = rule.within == RACK_LEVEL
        self._levels = tuple(named_levels(rule))
        self._racks = Pattern(rule.racks) if rule.racks else None
        self._no_racks = Pattern(rule.exclude_racks)
        self._nodes = Pattern(rule.only_nodes) if rule.only_nodes else None
        self._no_nodes = Pattern(rule.exclude_nodes) if rule.exclude_nodes else None
        self._barred: dict[RackName, bool] = {}

    @property
    def names_nodes(self) -> bool:
        """Whether the group speaks of nodes by name, so that two that look the same may differ."""
        return self._nodes is not None or self._no_nodes is not None

    def reason(self, node: Node) -> Exclusion | None:
        """Return the first reason, in the order of `Exclusion`, why the group cannot use a node; None where it can."""
        taken = self.taken.get(node.name)
        if self._bars(node.rack) or self._names_otherwise(node.name):
            return Exclusion.EXCLUDED
        if node.drained is not None or (taken is not None and taken.drained is not None):
            return Exclusion.DRAINED
        if taken is not None and taken.sick is not None:
            return Exclusion.SICK
        if self._local and node.domain is None:
            return Exclusion.NO_DOMAIN
        if self._levels and None in [node.at(level) for level in self._levels]:
            return Exclusion.UNNAMED
        if self._kind is not None and not self._of_kind(node):
            return Exclusion.KIND
        if node.gpus < self.group.gpus:
            return Exclusion.TOO_FEW_GPUS
        if taken is not None and taken.by_run is not None:
            return Exclusion.IN_USE
        if node.name in self.promised:
            return Exclusion.PROMISED
        return None if self.bounds is None else self.bounds.reason(node)

    def _of_kind(self, node: Node) -> bool:
        # Pretended GPUs of no stated kind are of any; real ones are of none until somebody says which.
        if node.accelerator is None:
            return node.gpu_driver is GpuDriver.NONE
        return node.accelerator.casefold() == self._kind

    def place(self, node: Node) -> str:
        """Return the name of the place that a slice on this node would have to stay in; `any` where it need not."""
        if self._local:
            return node.rack
        within = self.group.topology.within
        if within == ANY_LEVEL:
            return ANY_LEVEL
        return (None if within == NODE_LEVEL else node.at(within)) or node.rack

    def _names_otherwise(self, name: NodeName) -> bool:
        wanted = self._nodes is None or self._nodes.matches(name)
        return not wanted or (self._no_nodes is not None and self._no_nodes.matches(name))

    def _bars(self, rack: RackName) -> bool:
        barred = self._barred.get(rack)
        if barred is None:
            barred = self._no_racks.matches(rack) or (self._racks is not None and not self._racks.matches(rack))
            self._barred[rack] = barred
        return barred


def named_levels(rule: TopologyRule) -> frozenset[str]:
    """Return the levels at which a node must have a place for a rule to be held on it."""
    apart = None if rule.apart_from is None else rule.apart_level
    named = {rule.within, rule.all_within, rule.spread, rule.spread_members, rule.exclusive, apart}
    return frozenset(level for level in named if level is not None and level not in _ALWAYS)


def free_of_marks(node: Node, taken: Taken | None) -> bool:
    """Whether nobody has a node, and nothing is said against it."""
    if node.drained is not None:
        return False
    return taken is None or (taken.by_run is None and taken.sick is None and taken.drained is None)


_ALWAYS = (NODE_LEVEL, RACK_LEVEL, ANY_LEVEL)
"""The levels at which every node has a place."""


def _spell(text: str) -> tuple[str, ...]:
    """Return the globs that a pattern with ranges stands for; a pattern without is one glob."""
    if not _RANGE_IN_BRACKETS.search(text):
        return (text,)
    try:
        return expand(text)
    except ValueError:  # a comma in a character class: a glob after all
        return (text,)
