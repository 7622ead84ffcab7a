"""The surroundings of an admission."""

from collections.abc import Callable
from dataclasses import dataclass, field

from launcher.admission.listener import AdmissionListener, SilentListener
from launcher.core.model.inventory import Inventory
from launcher.ports import Prober
from launcher.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionContext:
    """The store of runs, a way to ask nodes for facts, and a listener."""

    store: Store
    open_prober: Callable[[Inventory], Prober]
    listener: AdmissionListener = field(default_factory=SilentListener)
