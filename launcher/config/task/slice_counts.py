"""Number and size of slices, by the file or by a default split."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from launcher.config.task.slice_range import MAX_NODES, read_range
from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.nodes import Mark
from launcher.config.yaml.values import Values
from launcher.core.model.inventory import NODE_LEVEL, RACK_LEVEL

# Of 18 trays in a rack, 16 can be relied on: one or two are always in repair (marin, pull 7225). A slice of fewer than
# 8 nodes leaves more than half of a rack to others; a count that splits no other way needs an explicit topology.
MOST_NODES = 16
LEAST_NODES = 8


@dataclass(frozen=True, slots=True)
class SliceCounts:
    """The number of slices of a group, the nodes of each, and the fewest slices if there may be fewer."""

    slices: int
    nodes_per_slice: int
    min_slices: int | None = None


def default_split(nodes: int) -> SliceCounts | None:
    """Return the fewest equal rack-local slices with `nodes` in total.

    None if there are none.
    """
    if nodes <= MOST_NODES:
        return SliceCounts(1, nodes)
    fewest = -(-nodes // MOST_NODES)
    for slices in range(fewest, nodes // LEAST_NODES + 1):
        if nodes % slices == 0:
            return SliceCounts(slices, nodes // slices)
    return None


class SliceCounter:
    """Reads the counts of a group, and checks them against each other."""

    def __init__(self, own: Values, topology: Values, within: str, gpus: int | None, out: Diagnostics) -> None:
        self._own = own
        self._topology = topology
        self._within = within
        self._gpus = gpus
        self._out = out

    def counts(self) -> SliceCounts:
        """Return the counts; if they are wrong, report it and return one node."""
        size = self._size()
        between = read_range(self._topology, self._out)
        slices = between[1] if between else self._topology.get("slices", int)
        # `check_ranges` reports a total beside a range.
        total = self._own.get("num_nodes", int) if between is None else None
        if self._unread(slices):
            return SliceCounts(1, 1)
        if size is not None and self._within == NODE_LEVEL and size > 1:
            mark = self._topology.mark_of("nodes_per_slice")
            what = f"a slice of {size} nodes cannot be `within: node`"
            self._out.mistake(mark, what, "use `within: rack`, or slices of one node")
        if between is not None:
            found = self._slices(between[1], None) if size is None else self._both(between[1], size, None)
            return replace(found, min_slices=between[0])
        if slices is not None and size is not None:
            return self._both(slices, size, total)
        if slices is not None:
            return self._slices(slices, total)
        if size is not None:
            return self._sized(size, total)
        return self._split(total if total is not None else 1)

    def _unread(self, slices: int | None) -> bool:
        """Whether a count in the file is wrong, which has been reported already."""
        if self._topology.has("slices") and slices is None:
            return True
        counts = [(self._topology, "nodes_per_slice"), (self._topology, "gpus_per_slice")]
        if any(
            values.has(name) and values.get(name, int) is None for values, name in [*counts, (self._own, "num_nodes")]
        ):
            return True
        # Without a number of GPUs per node, or with one that does not divide, the size is unknown.
        return self._topology.has("gpus_per_slice") and self._size_of_gpus() is None

    def _size(self) -> int | None:
        size = self._topology.get("nodes_per_slice", int)
        gpus = self._topology.get("gpus_per_slice", int)
        if gpus is None:
            return size
        mark = self._topology.mark_of("gpus_per_slice")
        if self._gpus == 0:
            hint = "add `resources: {accelerators: GB300:4}`, or use `nodes_per_slice`"
            self._out.mistake(mark, "`gpus_per_slice` requires the GPUs of a node, which are not given", hint)
        elif self._gpus is not None and gpus % self._gpus:
            self._uneven(gpus, self._gpus, mark)
        by_gpus = self._size_of_gpus()
        if size is not None and by_gpus is not None and size != by_gpus:
            what = f"`gpus_per_slice: {gpus}` is {_nodes(by_gpus)}, but `nodes_per_slice` is {size}"
            self._out.mistake(mark, what, "remove one of the two")
        return size if size is not None else by_gpus

    def _size_of_gpus(self) -> int | None:
        gpus = self._topology.get("gpus_per_slice", int)
        if gpus is None or not self._gpus or gpus % self._gpus:
            return None
        return gpus // self._gpus

    def _uneven(self, gpus: int, each: int, mark: Mark) -> None:
        low = gpus - gpus % each
        near = f"{low} or {low + each}" if low else f"{each}"
        what = f"`gpus_per_slice: {gpus}` is not a multiple of the {each} GPUs of a node"
        self._out.mistake(mark, what, f"use {near}")

    def _both(self, slices: int, size: int, total: int | None) -> SliceCounts:
        if total is not None and total != slices * size:
            what = f"`num_nodes: {total}` contradicts {slices} slices of {_nodes(size)}, which is {slices * size}"
            self._out.mistake(self._own.mark_of("num_nodes"), what, "remove `num_nodes`, or correct it")
        if slices * size > MAX_NODES:
            what = f"{slices} slices of {_nodes(size)} are {slices * size} nodes, but a group has at most {MAX_NODES}"
            self._out.mistake(self._topology.mark_of("slices"), what, "use fewer or smaller slices")
            return SliceCounts(1, 1)
        return SliceCounts(slices, size)

    def _slices(self, slices: int, total: int | None) -> SliceCounts:
        if total is None:
            what = f"`slices: {slices}` is given without the size of a slice"
            hint = "add `nodes_per_slice` or `gpus_per_slice`"
            self._out.mistake(self._topology.mark_of("slices"), what, hint)
            return SliceCounts(slices, 1)
        if total % slices:
            self._not_divided(total, slices, f"does not divide into {slices} slices")
        return SliceCounts(slices, max(1, total // slices))

    def _sized(self, size: int, total: int | None) -> SliceCounts:
        if total is not None and total % size:
            self._not_divided(total, size, f"does not divide into slices of {_nodes(size)}")
        return SliceCounts(1 if total is None else max(1, total // size), size)

    def _not_divided(self, total: int, by: int, message: str) -> None:
        low = total - total % by
        near = f"{low} or {low + by}" if low else f"{by}"
        self._out.mistake(self._own.mark_of("num_nodes"), f"`num_nodes: {total}` {message}", f"use {near}")

    def _split(self, total: int) -> SliceCounts:
        if self._within == NODE_LEVEL:
            return SliceCounts(total, 1)
        if self._within != RACK_LEVEL:
            return SliceCounts(1, total)
        counts = default_split(total)
        if counts is not None:
            return counts
        below, above = _nearest(range(total, 0, -1)), _nearest(range(total, 2 * total))
        what = f"{total} nodes do not split into equal rack-local slices of {LEAST_NODES} to {MOST_NODES} nodes"
        hint = f"use {below} or {above}, or set `slices` and `nodes_per_slice` under `topology`"
        self._out.mistake(self._own.mark_of("num_nodes"), what, hint)
        return SliceCounts(1, total)


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _nearest(totals: Iterable[int]) -> str:
    """Return the first of these totals that splits by default, with its split."""
    split = ((total, counts) for total in totals if (counts := default_split(total)))
    total, counts = next(split)
    return f"{total} ({counts.slices} x {counts.nodes_per_slice})"
