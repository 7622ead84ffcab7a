"""The faults of an inventory's nodes while runs used them, from the store."""

from launcher.core.planner.faults import DAY_S
from launcher.core.planner.observed import ObservedFaults
from launcher.store.evidence.incidents import IncidentKind
from launcher.store.store import Store


def observed_faults(store: Store, fleet: str, now: float) -> ObservedFaults:
    """Return the failures of nodes of an inventory in runs of this store until `now` (s since the epoch).

    Failures of programs do not count.
    """
    used = store.ledger.gpu_time(fleet, now)
    failed = [one for one in store.ledger.incidents(fleet) if one.kind is IncidentKind.NODE_FAILED and one.run in used]
    return ObservedFaults(incidents=len(failed), gpu_days=sum(used.values()) / DAY_S)
