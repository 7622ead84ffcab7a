"""The NVLink fabric as each GPU's driver reports it: which domain the GPU is in, and whether its part of it is well.

`Completed` says that registration ended, not that the fabric is well: that is what the health says, where the driver
is new enough to have it (bandwidth since 550, a summary since 570 or so).
"""

import re
from dataclasses import dataclass
from enum import Enum, unique

from launcher.probe.tree import Tree, fold

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NO_DOMAIN = "00000000-0000-0000-0000-000000000000"


@unique
class FabricState(Enum):
    """How far a GPU has come in joining its fabric. NONE: it has no fabric; OTHER: a word that we do not know."""

    NONE = "not supported"
    NOT_STARTED = "not started"
    IN_PROGRESS = "in progress"
    COMPLETED = "completed"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """What one GPU says of its fabric; None where the driver has no such key or says `N/A`."""

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
        """Whether NVLink works within the tray and ends there, which a UUID of zeroes says."""
        return self.cluster_uuid == _NO_DOMAIN

    @property
    def domain(self) -> str | None:
        """Return the NVLink domain, `<ClusterUUID>.<CliqueId>`; None while there is none.

        Neither half will do: whole sites use one clique id, and a rack cut into partitions has one UUID.
        """
        if self.cluster_uuid is None or self.tray_only or self.clique_id is None:
            return None
        return f"{self.cluster_uuid}.{self.clique_id}"


def read_fabric(gpu: Tree) -> Fabric:
    """Return what the tree of one GPU says of its fabric."""
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


def _troubles(tree: Tree) -> tuple[str, ...]:
    """Return each key whose value is not the good one, as printed; a health key that we do not know is no trouble."""
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
