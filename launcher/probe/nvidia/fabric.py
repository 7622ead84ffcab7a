"""The NVLink fabric of each GPU: domain, state and health.

The state `Completed` only means that registration has ended. The health is reported by newer drivers: bandwidth since
550, a summary since about 570.
"""

import re
from dataclasses import dataclass
from enum import Enum, unique

from launcher.probe.nvidia.smi_tree import SmiTree, fold

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NO_DOMAIN = "00000000-0000-0000-0000-000000000000"


@unique
class FabricState(Enum):
    """The state of a GPU in its fabric.

    NONE: it has no fabric. OTHER: an unknown state.
    """

    NONE = "not supported"
    NOT_STARTED = "not started"
    IN_PROGRESS = "in progress"
    COMPLETED = "completed"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """The fabric of one GPU; None if the driver has no such key or prints `N/A`.

    `said` is the state as printed, `troubles` are the health keys with a bad value.
    """

    state: FabricState = FabricState.NONE
    said: str | None = None
    status: str | None = None
    cluster_uuid: str | None = None
    clique_id: int | None = None
    summary: str | None = None
    bandwidth: str | None = None
    troubles: tuple[str, ...] = ()

    @property
    def tray_only(self) -> bool:
        """Whether NVLink ends at the tray, which a UUID of zeroes means."""
        return self.cluster_uuid == _NO_DOMAIN

    @property
    def domain(self) -> str | None:
        """Return the NVLink domain, `<ClusterUUID>.<CliqueId>`; None if there is none.

        Both parts are needed: a whole site may use one CliqueId, and all partitions of a rack have one ClusterUUID.
        """
        if self.cluster_uuid is None or self.tray_only or self.clique_id is None:
            return None
        return f"{self.cluster_uuid}.{self.clique_id}"


def read_fabric(gpu: SmiTree) -> Fabric:
    """Return the fabric in the tree of one GPU."""
    tree = gpu.at("fabric")
    if tree is None:
        return Fabric()
    said = tree.text("state")
    clique = tree.text("cliqueid") or ""
    uuid = (tree.text("clusteruuid") or "").lower()
    return Fabric(
        state=_state(said),
        said=said,
        status=tree.text("status"),
        cluster_uuid=uuid if _UUID.fullmatch(uuid) else None,
        clique_id=int(clique) if re.fullmatch(r"[0-9]{1,10}", clique) else None,
        summary=tree.text("health", "summary"),
        bandwidth=tree.text("health", "bandwidth"),
        troubles=_troubles(tree),
    )


def _state(said: str | None) -> FabricState:
    if said is None or fold(said) == "notsupported":
        return FabricState.NONE
    known = {fold(state.value): state for state in FabricState if state is not FabricState.NONE}
    return known.get(fold(said), FabricState.OTHER)


_GOOD = {"status": "success", "summary": "healthy", "bandwidth": "full"}
_GOOD_HEALTH = ("false", "none")


def _troubles(tree: SmiTree) -> tuple[str, ...]:
    """Return each key with a bad value, as printed.

    Unknown keys of the health are ignored.
    """
    health = tree.at("health")
    found = [child for child in (tree.at("status"), *(health.below if health else ())) if child]
    return tuple(
        f"{child.name.replace('_', ' ')}: {child.value}"[:120]
        for child in found
        if child.value not in ("", "N/A") and _bad(child.key, fold(child.value))
    )


_FLAGS = ("routerecoveryinprogress", "routeunhealthy", "accesstimeoutrecovery", "incorrectconfiguration")


def _bad(key: str, value: str) -> bool:
    if key in _GOOD:
        return value != _GOOD[key]
    return key in _FLAGS and value not in _GOOD_HEALTH
