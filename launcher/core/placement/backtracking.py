"""All slices of a task at once, tried in every way that differs: an answer, the proof that there is none, or neither.

Nodes count as alike when they are in the same places at every level that the task speaks of, so that the search deals
with a few numbers and not with nodes. Slices of one group are told apart by their place only, and untouched places of
one shape stand for each other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from launcher.core.model.task import TopologyRule
from launcher.core.placement.capacity import Board, Cell, Role, cell_order
from launcher.core.placement.constraints import Scale, Spot, near_scale, within_scale

MAX_WORK = 400_000
"""How many kinds of node a search looks at before it gives up (about half a second): it might take for ever."""

MAX_SLICES = 200
"""The most slices that are searched for, so that the search stays far from Python's recursion limit."""


class GaveUpError(Exception):
    """The search has used up its work: nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """How many nodes of which cells a slice of a role takes; the last `shared` of them are spares of its place."""

    role: Role
    parts: tuple[tuple[tuple[Cell, ...], int], ...]
    shared: int


def search(board: Board, order: Sequence[Role], work: int = MAX_WORK) -> list[Found] | None:
    """Return where all missing slices go, None where no placement exists; GaveUpError where neither was shown.

    `order` must have a group before those that are near to it.
    """
    if sum(role.missing for role in order) > MAX_SLICES or len(board.cells) * len(order) > work:
        raise GaveUpError
    return _Search(board, order, work).run()


@dataclass(slots=True)
class _Kind:
    """Nodes that are alike to the task."""

    uses: int
    spots: Mapping[Scale, Spot | None]
    cells: list[Cell] = field(default_factory=list)
    free: int = 0


_Counts = tuple[tuple[int, int], ...]
"""Kinds of node by number, each with how many a slice takes of it."""


@dataclass(frozen=True, slots=True)
class _Step:
    role: Role
    place: int
    counts: _Counts
    shared: int


class _Search:
    """The kinds of node, the places of each role as lists of them, and the slices placed so far."""

    def __init__(self, board: Board, order: Sequence[Role], work: int) -> None:
        self._ledger, self._stations, self._work = board.ledger, board.stations, work
        self._order = [(role, left) for role in order for left in range(role.missing, 0, -1)]
        self._scales = sorted(
            {scale for role in order for scale in _scales(role.rule)} | {scale for _, scale in board.ledger.watched},
            key=lambda scale: (scale.level, scale.local),
        )
        self._kinds = self._alike(board)
        self._places = {role.name: self._places_of(role) for role in order}
        self._private: dict[Scale, frozenset[Scale]] = {}
        self._steps: list[_Step] = []
        self._shared: set[tuple[str, int]] = set()

    def run(self) -> list[Found] | None:
        """Return the first way that works, and leave the ledger as it was."""
        if not self._go(0):
            return None
        found = [
            Found(
                role=step.role,
                parts=tuple((tuple(self._kinds[at].cells), count) for at, count in step.counts),
                shared=step.shared,
            )
            for step in self._steps
        ]
        while self._steps:
            self._undo()
        return found

    def _alike(self, board: Board) -> list[_Kind]:
        kinds: dict[tuple[object, ...], _Kind] = {}
        for cell in sorted(board.cells, key=cell_order):
            spots = {scale: scale.spot(cell) for scale in self._scales}
            kind = kinds.setdefault((cell.uses, *spots.values()), _Kind(cell.uses, spots))
            kind.cells.append(cell)
            kind.free += len(cell.free)
        return list(kinds.values())

    def _places_of(self, role: Role) -> list[list[int]]:
        """Return the kinds of each place where a slice of a role may be."""
        if not role.places:
            return []
        scale = within_scale(role.rule)
        places: dict[Spot | None, list[int]] = {}
        for at, kind in enumerate(self._kinds):
            if kind.uses & role.use:
                places.setdefault(kind.spots[scale], []).append(at)
        return list(places.values())

    def _private_to(self, own: Scale) -> frozenset[Scale]:
        """Return the scales at which each place of a scale is a place of its own, and all of it."""
        if own in self._private:
            return self._private[own]
        self._spend(len(self._kinds) * len(self._scales))
        pairs = {scale: set[tuple[object, object]]() for scale in self._scales}
        for kind in self._kinds:
            for scale in self._scales:
                pairs[scale].add((kind.spots[own], kind.spots[scale]))
        self._private[own] = frozenset(
            scale
            for scale, both in pairs.items()
            if len({place for place, _ in both}) == len({spot for _, spot in both}) == len(both)
        )
        return self._private[own]

    def _go(self, at: int) -> bool:
        """Whether all slices from this one on found a place; they are in the steps then."""
        if at == len(self._order):
            return not any(self._ledger.lonely(role.name) for role, _ in self._order)
        role, left = self._order[at]
        last = self._steps[-1] if self._steps and self._steps[-1].role is role else None
        rooms = self._rooms(role)
        if sum(slices for _, slices, _ in rooms) < left:
            return False
        seen: set[object] = set()
        for place, _, kinds in rooms:
            shape = self._shape(role, kinds)
            if (last is not None and place < last.place) or shape in seen:
                continue
            seen.add(shape)
            shared = self._shared_by(role, place)
            for counts in self._portions(role, kinds, role.need + shared):
                # Slices of one group can change places, so that only one order of them is tried.
                if last is not None and place == last.place and not role.rule.spares_per_rack and counts > last.counts:
                    continue
                self._apply(_Step(role, place, counts, shared))
                if self._go(at + 1):
                    return True
                self._undo()
        return False

    def _rooms(self, role: Role) -> list[tuple[int, int, list[int]]]:
        """Return the places where the next slice may be, with no fewer slices than each holds, and its usable kinds."""
        bounds = self._ledger.bounds(role.name)
        found = []
        for place, kinds in enumerate(self._places[role.name]):
            self._spend(len(kinds))
            usable = [at for at in kinds if self._kinds[at].free and bounds.reason(self._kinds[at].cells[0]) is None]
            room = sum(self._kinds[at].free for at in usable) - self._shared_by(role, place)
            apart = room if role.members is None else len({self._kinds[at].spots[Scale(role.members)] for at in usable})
            if min(room, apart) >= role.need:
                found.append((place, room // role.need, usable))
        return found

    def _spend(self, work: int) -> None:
        self._work -= work
        if self._work < 0:
            while self._steps:
                self._undo()
            raise GaveUpError

    def _shared_by(self, role: Role, place: int) -> int:
        """Return how many spares the next slice has to bring for its place."""
        if not role.rule.spares_per_rack or (role.name, place) in self._shared:
            return 0
        views = self._kinds[self._places[role.name][place][0]].cells[0].views
        return 0 if any((role.name, id(view)) in self._stations for view in views) else role.rule.spares_per_rack

    def _shape(self, role: Role, kinds: Sequence[int]) -> object:
        """Return what tells a place from others: what it has, and its names where others have a part in them."""
        private = self._private_to(within_scale(role.rule))
        self._spend(len(kinds) * len(self._ledger.watched))

        def look(kind: _Kind) -> tuple[object, ...]:
            names = tuple(kind.spots[scale] for scale in self._scales if scale not in private)
            own = tuple(
                kind.spots[scale] if kind.spots[scale] in self._ledger.touched(name, scale) else None
                for name, scale in self._ledger.watched
                if scale in private
            )
            return kind.uses, kind.free, names, own

        shared = self._shared_by(role, next(at for at, own in enumerate(self._places[role.name]) if kinds[0] in own))
        return shared, tuple(sorted((look(self._kinds[at]) for at in kinds), key=repr))

    def _portions(self, role: Role, kinds: Sequence[int], need: int) -> Iterator[_Counts]:
        """Return every way to take `need` nodes of kinds, no two of one place where members keep apart."""
        scale = None if role.members is None else Scale(role.members)
        after = [0] * (len(kinds) + 1)
        for at in range(len(kinds) - 1, -1, -1):
            after[at] = after[at + 1] + self._kinds[kinds[at]].free

        def some(at: int, left: int, used: frozenset[Spot | None]) -> Iterator[_Counts]:
            if left == 0:
                yield ()
            if left == 0 or after[at] < left:
                return
            self._spend(1)
            kind = self._kinds[kinds[at]]
            value = None if scale is None else kind.spots[scale]
            most = min(left, kind.free) if scale is None else int(value not in used)
            for count in range(most, max(0, left - after[at + 1]) - 1, -1):
                taken = used | {value} if count and scale is not None else used
                for rest in some(at + 1, left - count, taken):
                    yield ((kinds[at], count), *rest) if count else rest

        yield from some(0, need, frozenset())

    def _apply(self, step: _Step) -> None:
        for at, count in step.counts:
            self._kinds[at].free -= count
        self._ledger.touch(step.role.name, [self._kinds[at].cells[0] for at, _ in step.counts])
        if step.shared:
            self._shared.add((step.role.name, step.place))
        self._steps.append(step)

    def _undo(self) -> None:
        step = self._steps.pop()
        for at, count in step.counts:
            self._kinds[at].free += count
        self._ledger.touch(step.role.name, [self._kinds[at].cells[0] for at, _ in step.counts], sign=-1)
        if step.shared:
            self._shared.discard((step.role.name, step.place))


def _scales(rule: TopologyRule) -> Iterator[Scale]:
    """Return every scale that a rule speaks of."""
    yield within_scale(rule)
    yield near_scale(rule)
    for level in (rule.all_within, rule.spread, rule.spread_members, rule.exclusive):
        if level is not None:
            yield Scale(level)
