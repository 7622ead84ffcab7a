"""The built-in inventory: two racks of nodes on this machine."""

from launcher.core.model.inventory import Access, GpuDriver, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName

_RACKS = ("r1", "r2")
_NODES = 3


def built_in() -> Inventory:
    """Return 2 racks x 3 nodes x 4 pretended GPUs of any kind.

    It is the same as `examples/local-racks.yaml`.
    """
    nodes = tuple(
        Node(
            name=NodeName(f"{rack}-n{number}"),
            rack=RackName(rack),
            access=Access(address=f"127.0.{10 + place}.{number}"),
            domain=rack,
            tray=number - 1,
            gpu_driver=GpuDriver.NONE,
        )
        for place, rack in enumerate(_RACKS, start=1)
        for number in range(1, _NODES + 1)
    )
    return Inventory(name="local", transport=Transport.LOCAL, nodes=nodes)
