"""How many slices of how many nodes: from what the file says, or by the default split of `num_nodes`."""

from collections.abc import Iterable
from dataclasses import dataclass

from launcher.config.yaml.nodes import Mark
from launcher.config.yaml.reading import Reading, Values
from launcher.core.model.inventory import NODE_LEVEL, RACK_LEVEL

# A rack of 18 trays guarantees 16: one or two are always in repair (marin, pull 7225). Below 8 nodes a slice leaves
# more than half of a rack to others, and a count that splits only so is better said as a topology.
MOST_NODES = 16
LEAST_NODES = 8


@dataclass(frozen=True, slots=True)
class Counts:
    """The shape of a group: slices x nodes of each."""

    slices: int
    nodes_per_slice: int


def default_split(nodes: int) -> Counts | None:
    """Return the fewest equal rack-local slices that hold `nodes`; None where they do not divide."""
    if nodes <= MOST_NODES:
        return Counts(1, nodes)
    fewest = -(-nodes // MOST_NODES)
    for slices in range(fewest, nodes // LEAST_NODES + 1):
        if nodes % slices == 0:
            return Counts(slices, nodes // slices)
    return None


class Counting:
    """The counts that a group names, checked against each other."""

    def __init__(self, own: Values, topology: Values, within: str, gpus: int | None, out: Reading) -> None:
        self._own = own
        self._topology = topology
        self._within = within
        self._gpus = gpus
        self._out = out

    def counts(self) -> Counts:
        """Return the counts; one node where they are wrong, which is then said."""
        slices = self._topology.get("slices", int)
        size = self._size()
        total = self._own.get("num_nodes", int)
        if self._unread():
            return Counts(1, 1)
        if size is not None and self._within == NODE_LEVEL and size > 1:
            mark = self._topology.mark_of("nodes_per_slice")
            self._out.mistake(mark, f"{size} nodes cannot be `within: node`", "choose `rack`, or slices of one node")
        if slices is not None and size is not None:
            return self._both(slices, size, total)
        if slices is not None:
            return self._slices(slices, total)
        if size is not None:
            return self._sized(size, total)
        return self._split(total if total is not None else 1)

    def _unread(self) -> bool:
        """Whether a count stands in the file but is wrong, which was said when it was read."""
        counts = [(self._topology, "slices"), (self._topology, "nodes_per_slice"), (self._topology, "gpus_per_slice")]
        if any(
            values.has(name) and values.get(name, int) is None for values, name in [*counts, (self._own, "num_nodes")]
        ):
            return True
        # Without the number of GPUs a node, or with one that does not divide, the size is unknown.
        return self._topology.has("gpus_per_slice") and self._size_of_gpus() is None

    def _size(self) -> int | None:
        size = self._topology.get("nodes_per_slice", int)
        gpus = self._topology.get("gpus_per_slice", int)
        if gpus is None:
            return size
        mark = self._topology.mark_of("gpus_per_slice")
        if self._gpus == 0:
            hint = "add `resources: {accelerators: GB300:4}`, or say `nodes_per_slice`"
            self._out.mistake(mark, "`gpus_per_slice` needs to know the GPUs of a node", hint)
        elif self._gpus is not None and gpus % self._gpus:
            self._uneven(gpus, self._gpus, mark)
        by_gpus = self._size_of_gpus()
        if size is not None and by_gpus is not None and size != by_gpus:
            what = f"`gpus_per_slice: {gpus}` is {_nodes(by_gpus)}, but `nodes_per_slice` is {size}"
            self._out.mistake(mark, what, "keep one of the two")
        return size if size is not None else by_gpus

    def _size_of_gpus(self) -> int | None:
        gpus = self._topology.get("gpus_per_slice", int)
        if gpus is None or not self._gpus or gpus % self._gpus:
            return None
        return gpus // self._gpus

    def _uneven(self, gpus: int, each: int, mark: Mark) -> None:
        low = gpus - gpus % each
        near = f"{low} or {low + each}" if low else f"{each}"
        self._out.mistake(mark, f"`gpus_per_slice: {gpus}` is no multiple of the {each} GPUs of a node", f"use {near}")

    def _both(self, slices: int, size: int, total: int | None) -> Counts:
        if total is not None and total != slices * size:
            what = f"`num_nodes: {total}` is not {slices} slices of {_nodes(size)}, which is {slices * size}"
            self._out.mistake(self._own.mark_of("num_nodes"), what, "remove `num_nodes`, or correct it")
        return Counts(slices, size)

    def _slices(self, slices: int, total: int | None) -> Counts:
        if total is None:
            what = f"`slices: {slices}` does not say how large a slice is"
            hint = "add `nodes_per_slice` or `gpus_per_slice`"
            self._out.mistake(self._topology.mark_of("slices"), what, hint)
            return Counts(slices, 1)
        if total % slices:
            self._not_divided(total, slices, f"does not divide into {slices} slices")
        return Counts(slices, max(1, total // slices))

    def _sized(self, size: int, total: int | None) -> Counts:
        if total is not None and total % size:
            self._not_divided(total, size, f"does not divide into slices of {_nodes(size)}")
        return Counts(1 if total is None else max(1, total // size), size)

    def _not_divided(self, total: int, by: int, message: str) -> None:
        low = total - total % by
        near = f"{low} or {low + by}" if low else f"{by}"
        self._out.mistake(self._own.mark_of("num_nodes"), f"`num_nodes: {total}` {message}", f"use {near}")

    def _split(self, total: int) -> Counts:
        if self._within == NODE_LEVEL:
            return Counts(total, 1)
        if self._within != RACK_LEVEL:
            return Counts(1, total)
        counts = default_split(total)
        if counts is not None:
            return counts
        below, above = _nearest(range(total, 0, -1)), _nearest(range(total, 2 * total))
        what = f"{total} nodes do not split into equal rack-local slices of {LEAST_NODES} to {MOST_NODES} nodes"
        hint = f"{below} or {above} would; or say `slices` and `nodes_per_slice` under `topology`"
        self._out.mistake(self._own.mark_of("num_nodes"), what, hint)
        return Counts(1, total)


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _nearest(totals: Iterable[int]) -> str:
    """Return the first of these counts that splits by default, with its split."""
    split = ((total, counts) for total in totals if (counts := default_split(total)))
    total, counts = next(split)
    return f"{total} ({counts.slices} x {counts.nodes_per_slice})"
