"""A look at a run: what each of its agents says, and what they say of machines that we cannot see."""

from collections.abc import Mapping, Sequence
from itertools import islice

from launcher.core.model.inventory import Node, RackName
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import NodeView, Reached, Seen, Sighting, Unseen
from launcher.core.model.run import Run, RunId
from launcher.setup.ports import FIRST
from launcher.transport.agent import decode, drivers
from launcher.transport.agent.addresses import Sites
from launcher.transport.agent.client import Json, Site
from launcher.transport.agent.poller import Looks

ASKERS = 2
"""How many agents try to reach a machine that we cannot see."""

SSH_PORT = 22


class Sights:
    """Remembers of each run whom the last look did not see, and where its head listens."""

    def __init__(self, sites: Sites, looks: Looks) -> None:
        self._sites = sites
        self._looks = looks
        self._views: dict[RunId, Mapping[NodeName, NodeView]] = {}
        self._listens: dict[RunId, tuple[str, int]] = {}

    def look(self, run: Run) -> Sighting:
        """Return what exists of the run on each of its nodes and on its head, all asked at once."""
        names = [node.name for node in run.fleet.nodes]
        slots, head = [self._sites.slot(run, name) for name in names], self._sites.head(run)
        asked = self._questions(run)
        told = self._looks.look([*slots, head], [*(asked[name] for name in names), {"op": "status"}])
        drivers.follow(run, told[:-1])
        drivers.add_groups(run, told[-1].get("supervisor", {}))
        views = {name: decode.node_view(answer) for name, answer in zip(names, told[:-1], strict=True)}
        self._views[run.id] = views
        self._learn(run, head, told[-1])
        reached = _reached(views, dict(zip(names, told[:-1], strict=True)))
        return Sighting(nodes=views, head=decode.head_view(told[-1], names), reached=reached)

    def _learn(self, run: Run, head: Site, told: Json) -> None:
        if told["ok"] and "block" in told:
            self._listens[run.id] = (head.access.address, head.blocks.ports(told["block"]).heartbeat)

    def _questions(self, run: Run) -> dict[NodeName, Json]:
        """Return what each agent is asked: one question, with all that it is to find out for us."""
        base: Json = {"op": "status"}
        if run.id in self._listens:
            base["head"] = list(self._listens[run.id])
        asked = {node.name: dict(base) for node in run.fleet.nodes}
        views = self._views.get(run.id, {})
        able = [node for node in run.fleet.nodes if _has_agent(views.get(node.name))]
        unseen = [node for node in run.fleet.nodes if isinstance(views.get(node.name), Unseen)]
        by_rack = {rack: askers(able, rack) for rack in {node.rack for node in unseen}}
        for node in unseen:
            target = [node.access.address, [node.access.port or SSH_PORT, FIRST]]
            for asker in by_rack[node.rack]:
                asked[asker].setdefault("reach", {})[node.name] = target
        return asked


def askers(able: Sequence[Node], rack: RackName) -> Sequence[NodeName]:
    """Return which of the nodes with an agent try to reach one in a rack: those of other racks first, for they go
    another way."""
    others = islice((node for node in able if node.rack != rack), ASKERS)
    own = islice((node for node in able if node.rack == rack), ASKERS)
    return [node.name for node in (*others, *own)][:ASKERS]


def _has_agent(view: NodeView | None) -> bool:
    return isinstance(view, Seen) and view.agent is not None


def _reached(views: Mapping[NodeName, NodeView], told: Mapping[NodeName, Json]) -> dict[NodeName, Reached]:
    """Return who reaches the nodes that we do not see; of two that do not agree, the one that does."""
    found: dict[NodeName, Reached] = {}
    for by, answer in told.items():
        for name, answers in answer.get("reached", {}).items():
            node = NodeName(name)
            if isinstance(views.get(node), Unseen) and (answers or node not in found):
                found[node] = Reached(by=by, answers=answers)
    return found
