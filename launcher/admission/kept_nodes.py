"""Nodes that a run has, and does not use: drained ones that it keeps until they return, and those that failed it."""

from contextlib import suppress
from dataclasses import replace

from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import UnavailableNodes
from launcher.core.model.run import RunId
from launcher.errors import OtherVersionError
from launcher.store.store import Store


def kept_nodes(store: Store, fleet: str) -> dict[NodeName, RunId]:
    """Return the drained nodes of an inventory that nothing runs on, with the run that gets each back."""
    drained, holders = store.ledger.drained(fleet), store.holders(fleet)
    requested = {run: store.load(run)[1].requested for run in {holders[name] for name in drained if name in holders}}
    return {name: run for name, run in holders.items() if name in drained and name not in requested[run]}


def with_failed(store: Store, fleet: str, unavailable: UnavailableNodes) -> UnavailableNodes:
    """Return the unavailable nodes, with why each one that failed the run which has it is not used."""
    found = dict(unavailable)
    for run in set(store.holders(fleet).values()):
        with suppress(OtherVersionError):  # `status` tells of it
            for name, evidence in store.load(run)[1].failed_nodes.items():
                if name in found and found[name].unhealthy is None:
                    found[name] = replace(found[name], unhealthy=evidence.message)
    return found
