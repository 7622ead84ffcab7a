"""Drained nodes that a run has released and keeps claimed until they return."""

from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import RunId
from launcher.store.store import Store


def kept_nodes(store: Store, fleet: str) -> dict[NodeName, RunId]:
    """Return the drained nodes of an inventory that nothing runs on, with the run that gets each back."""
    drained, holders = store.ledger.drained(fleet), store.holders(fleet)
    requested = {run: store.load(run)[1].requested for run in {holders[name] for name in drained if name in holders}}
    return {name: run for name, run in holders.items() if name in drained and name not in requested[run]}
