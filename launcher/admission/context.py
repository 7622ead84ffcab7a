"""The surroundings of an admission."""

from collections.abc import Callable
from dataclasses import dataclass, field

from launcher.admission.listener import AdmissionListener, SilentListener
from launcher.core.model.inventory import Inventory
from launcher.ports import Checker, Prober
from launcher.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionContext:
    """The store of runs, ways to ask nodes for facts and to check them, and a listener.

    Without `open_checker` nothing is checked before a start.
    """

    store: Store
    open_prober: Callable[[Inventory], Prober]
    open_checker: Callable[[Inventory], Checker] | None = None
    listener: AdmissionListener = field(default_factory=SilentListener)
