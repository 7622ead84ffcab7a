"""The first stage of a start.

A task is placed on nodes that were asked and are fit.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from launcher.admission import engines
from launcher.admission.allocation import way_hint
from launcher.admission.domains import _guesses, check_domains, unknown_domains, with_domains
from launcher.admission.node_checks import (
    HEAD,
    Examined,
    compare,
    compare_all,
    compare_machines,
    examine,
    head_of,
    needs_of,
    summary,
)
from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Shortfall, Unavailable, UnavailableNodes, mark_unhealthy
from launcher.core.model.task import Task
from launcher.core.placement.place import place
from launcher.core.planner.straddle import straddling
from launcher.errors import NoCapacityError, ProvisionError
from launcher.ports import Listener, Prober
from launcher.probe.check_gpu import domain_of
from launcher.probe.findings import CheckResult, Finding
from launcher.probe.results import Unknown
from launcher.setup.lease import Holder, read_holder

BLIND_ROUNDS = 2
"""After so many rounds without any answer, the network is suspected instead of the nodes."""


class Preflight:
    """Places a task on nodes that it asks and finds fit.

    Unfit nodes are excluded, and the task is placed again.

    `fleet` has the NVLink domains that drivers reported where the inventory leaves them out; `remembered` are earlier
    reports, used until a node is asked. `held` are nodes whose leases others hold; the given ones are asked again.
    `avoided` are nodes to do without if the task fits without them.
    """

    def __init__(
        self,
        task: Task,
        fleet: Inventory,
        prober: Prober,
        listener: Listener,
        remembered: Mapping[NodeName, str],
        held: Mapping[NodeName, Holder] | None = None,
        avoided: AbstractSet[NodeName] = frozenset(),
    ) -> None:
        self.examined: dict[NodeName, Examined] = {}
        self.unhealthy: dict[NodeName, str] = {}
        self.held: dict[NodeName, Holder] = dict(held or {})
        self.reported: dict[NodeName, str] = {}
        self._task = task
        self._written = fleet
        self._prober = prober
        self._listener = listener
        self._left_out = frozenset(unknown_domains(fleet))
        self._remembered = dict(remembered)
        self._avoided = avoided
        self._engine = fleet.container_engine
        self._blind = 0
        self._last: tuple[tuple[Inventory, UnavailableNodes], Placement | Shortfall] | None = None

    @property
    def fleet(self) -> Inventory:
        """Return the inventory with known domains, guesses for unasked nodes, and the engine of containers."""
        return replace(with_domains(self._written, self._domains()), container_engine=self._engine)

    def place(self, unavailable: UnavailableNodes) -> Placement | Shortfall:
        """Return a placement on fit nodes, or why there is none.

        SpecError where drivers contradict the inventory; ProvisionError where no node can be reached, the machine for
        heads is unfit, or the nodes of a slice differ without a majority.
        """
        if doubtful := [node for node in self._written.nodes if node.name in self.held and not self._known(node)]:
            self._ask(doubtful)
        while True:
            answer = self.again(unavailable)
            if isinstance(answer, Shortfall):
                self._check_way(BLIND_ROUNDS)
                return answer
            if due := self._due(answer, unavailable):
                self._ask(due)
            elif not self._differ(answer):
                return answer

    def again(self, unavailable: UnavailableNodes) -> Placement | Shortfall:
        """Return the placement by what is known now; asks no node.

        It is computed once for what is known: a launch asks for it before and after its nodes are asked, and when it
        claims them, which holds up all others.
        """
        known = self.fleet, mark_unhealthy(self._with_held(unavailable), self.unhealthy)
        if self._last is None or self._last[0] != known:
            self._last = known, place_without(self._task, *known, self._avoided)
        return self._last[1]

    def exclude(self, unfit: Mapping[NodeName, str]) -> None:
        """Count nodes as unhealthy, each with the reason."""
        self.unhealthy.update(unfit)

    @property
    def without_job(self) -> tuple[NodeName, ...]:
        """Return the nodes that Slurm does not let us into."""
        return tuple(name for name, one in self.examined.items() if one.without_job)

    def ask_again(self, names: Iterable[NodeName]) -> None:
        """Forget what was found of nodes: they are asked again where they are needed."""
        self._blind = 0
        for name in names:
            self.examined.pop(name, None)
            self.unhealthy.pop(name, None)

    def unheld(self, unavailable: UnavailableNodes) -> Placement | Shortfall:
        """Return the placement if no node were held by others; asks no node."""
        return place(self._task, self.fleet, mark_unhealthy(unavailable, self.unhealthy))

    def refusal(self, shortfall: Shortfall, unavailable: UnavailableNodes) -> NoCapacityError:
        """Return the error for a shortfall by what is known now."""
        now = mark_unhealthy(self._with_held(unavailable), self.unhealthy)
        return NoCapacityError(shortfall, straddling(self._task, self.fleet, now, shortfall))

    def _with_held(self, unavailable: UnavailableNodes) -> UnavailableNodes:
        held = {
            name: replace(unavailable.get(name, Unavailable()), used_by=other.who) for name, other in self.held.items()
        }
        return {**unavailable, **held}

    def _known(self, node: Node) -> bool:
        """Whether the holder of a node is certain.

        The node was asked, or its holder is no run.
        """
        return node.name in self.examined or not self.held[node.name].run

    def asked(self, placement: Placement) -> bool:
        """Whether all nodes of a placement were asked."""
        return all(name in self.examined for name in placement.nodes)

    def of(self, placement: Placement) -> tuple[Examined, ...]:
        """Return the findings about the nodes of a placement and the machine for heads."""
        return tuple(self.examined[name] for name in (*placement.nodes, HEAD) if name in self.examined)

    def _domains(self) -> Mapping[NodeName, str]:
        """Return a domain for each node that has none in the inventory.

        None for one that was asked in vain.

        A node that was never asked is assumed to be in the domain of its rack, as most racks are wired. That excludes
        no placement, and nodes that are placed by a guess are asked.
        """
        known = {**self._remembered, **self.reported}
        unknown = self._left_out - self.examined.keys()
        unasked = (node.name for node in self._written.nodes if node.name in unknown)
        guesses = _guesses(self._written, known, unasked)
        return {**guesses, **self.reported}

    def _due(self, placement: Placement, unavailable: UnavailableNodes) -> list[Node]:
        """Return the nodes to ask now.

        Those of the placement, and all of their racks whose domain is unknown.
        """
        placed = set(placement.nodes)
        racks = {part.rack for part in placement.slices if part.domain is not None}
        due = [
            node
            for node in self._written.nodes
            if node.name not in self.examined
            and (node.name in placed or (node.rack in racks and self._wanted(node, unavailable)))
        ]
        head = head_of(self._written)
        return [*due, *([head] if due and head and HEAD not in self.examined else ())]

    def _wanted(self, node: Node, unavailable: UnavailableNodes) -> bool:
        use = unavailable.get(node.name, Unavailable())
        free = node.drained is None and use.drained is None and use.used_by is None
        return free and node.name in self._left_out and node.name not in self._remembered

    def _ask(self, nodes: Sequence[Node]) -> None:
        needs = needs_of(self._task, self._written.container_engine)
        found = examine(self._written, nodes, self._prober, self._listener, needs)
        for one in found:
            self.examined[one.node.name] = one
            self._learn(one)
            self._look_at_lease(one)
            if one.unhealthy is not None and one.node.name not in self.held:
                self.unhealthy[one.node.name] = one.unhealthy
        if not self._written.capabilities.this_machine:
            self._single_out(compare_machines(self._in_order()), "the run")
        self._blind = 0 if any(one.reached for one in self.examined.values()) else self._blind + 1
        self._check_way(self._blind)
        self._check_head()
        check_domains(self._written, found)

    def _in_order(self) -> Iterable[Examined]:
        """Return the nodes that were asked as the inventory lists them."""
        return (self.examined[node.name] for node in self._written.nodes if node.name in self.examined)

    def _look_at_lease(self, one: Examined) -> None:
        """Note who holds a node; other faults of a node in use may come from its user."""
        lease = None if isinstance(one.facts, Unknown) else one.facts.lease
        if isinstance(lease, str):
            self.held[one.node.name] = read_holder(lease)
        elif one.reached and not isinstance(lease, Unknown):
            self.held.pop(one.node.name, None)

    def _learn(self, one: Examined) -> None:
        """Note a reported domain.

        Where an earlier report was different, forget those of the whole rack.
        """
        domain = None if isinstance(one.facts, Unknown) else domain_of(one.facts)
        if domain is None or one.node.name not in self._left_out:
            return
        self.reported[one.node.name] = domain
        if self._remembered.get(one.node.name, domain) != domain:
            for node in self._written.nodes:
                if node.rack == one.node.rack:
                    self._remembered.pop(node.name, None)

    def _check_way(self, blind: int) -> None:
        """Raise ProvisionError where no node has answered so far."""
        if self.examined and blind >= BLIND_ROUNDS and not any(one.reached for one in self.examined.values()):
            raise ProvisionError(
                f"cannot reach any of {len(self.examined)} nodes",
                outcomes=tuple((name, one.unhealthy or "") for name, one in self.examined.items()),
                hints=(way_hint(self.examined.values()),),
            )

    def _check_head(self) -> None:
        if HEAD in self.unhealthy:
            address = self.examined[HEAD].node.access.address
            message = f"cannot use the machine for Ray heads, `{address}`: {self.unhealthy[HEAD]}"
            hint = "repair it, or remove `head:` from the inventory: then the head is on the first node of the run"
            raise ProvisionError(message, outcomes=(), hints=(hint,))

    def _differ(self, placement: Placement) -> bool:
        """Whether a node was found unfit because it differs from the others."""
        before = len(self.unhealthy)
        for part in placement.slices:
            members = [self.examined[name] for name in (*part.nodes, *part.spares)]
            self._single_out(compare(members, one_domain=part.domain is not None), f"slice `{part.key}`")
        if len(self.unhealthy) == before:
            self._single_out(compare_all(self.of(placement)), "the run")
            self._check_head()
            self._settle_engine([self.examined[name] for name in placement.nodes])
        return len(self.unhealthy) > before

    def _settle_engine(self, nodes: Sequence[Examined]) -> None:
        self._engine = engines.choose(self._task, self._written.container_engine, nodes)
        self.unhealthy.update(engines.unfit(self._task, self._engine, nodes))

    def _single_out(self, findings: Iterable[Finding], whose: str) -> None:
        for finding in findings:
            if finding.result is not CheckResult.BAD or not finding.stops:
                continue
            if not finding.nodes:
                hint = "make them equal, or exclude one side with `exclude_nodes`"
                raise ProvisionError(f"{whose} cannot start: {summary([finding])}", outcomes=(), hints=(hint,))
            for name in finding.nodes:
                self.unhealthy.setdefault(name, summary([finding]) or "")


def place_without(
    task: Task, fleet: Inventory, unavailable: UnavailableNodes, avoided: AbstractSet[NodeName]
) -> Placement | Shortfall:
    """Return a placement without some nodes, with them only if there is no other."""
    if avoided:
        answer = place(
            task, fleet, mark_unhealthy(unavailable, dict.fromkeys(avoided, "the program failed here first"))
        )
        if isinstance(answer, Placement):
            return answer
    return place(task, fleet, unavailable)
