"""What a rig consists of, as plain data: it crosses from the test to the warden as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

ROUTER_MAC = "02:6e:76:00:00:01"
_UPLINK_MAC = "02:6e:76:00:00:02"
GATEWAY = "169.254.1.1"
FIRST_RANGE, LAST_RANGE = 64, 127  # 10.64.0.0/16 to 10.127.0.0/16: one a rig
MAX_RACKS, MAX_NODES = 200, 250
BASTION, HEAD = "bastion", "head"  # hosts outside the racks
_OUTSIDE = {BASTION: 1, HEAD: 2}


@dataclass(frozen=True)
class Sizes:
    """Limits of a host's file systems, in the kernel's notation; they cost nothing until they are used."""

    disk: str = "4g"
    tmp: str = "2g"
    run: str = "64m"
    shm: str = "50%"  # as the kernel gives it; Ray wants 30% of the memory


@dataclass(frozen=True)
class Slot:
    """One host: its number in the rig, name, place and addresses."""

    number: int
    name: str
    rack: str
    tray: int
    address: str
    mac: str


@dataclass(frozen=True)
class Plan:
    """Everything the warden must know to make the hosts of a rig."""

    folder: str
    owner: int
    range: int
    slots: Mapping[str, Slot]
    sizes: Sizes = field(default_factory=Sizes)
    exposed: tuple[str, ...] = ()  # folders of the launching machine that an overlay of / does not show
    hidden: tuple[str, ...] = ("/root", "/home")

    @property
    def network(self) -> str:
        """The range of addresses that belongs to this rig alone."""
        return f"10.{self.range}.0.0/16"

    @property
    def launcher_address(self) -> str:
        """The address of the launching side, as hosts see it."""
        return f"10.{self.range}.255.254"

    @property
    def router_address(self) -> str:
        """The next hop of the launching side to every host."""
        return f"10.{self.range}.255.253"

    @property
    def uplink(self) -> str:
        """The interface of the launching side."""
        return f"nvrig{self.range}"

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON can carry it."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Plan":
        """Return the plan that `to_json` was given."""
        slots = {name: Slot(**slot) for name, slot in data["slots"].items()}
        lists = {"exposed": tuple(data["exposed"]), "hidden": tuple(data["hidden"])}
        return Plan(**{**data, **lists, "slots": slots, "sizes": Sizes(**data["sizes"])})


def slots(racks: int, nodes: int, of: int, outside: Sequence[str] = ()) -> dict[str, Slot]:
    """Return the hosts of `racks` x `nodes` in range `of`, and those outside: `r03-n07` has 10.RANGE.3.7."""
    places = [(f"r{rack:02}", rack, node) for rack in range(1, racks + 1) for node in range(1, nodes + 1)]
    names = [(f"{rack}-n{node:02}", rack, number, node) for rack, number, node in places]
    names += [(name, "", 255, _OUTSIDE[name]) for name in outside]
    made = [
        Slot(at, name, rack, node - 1, f"10.{of}.{number}.{node}", _mac(of, number, node))
        for at, (name, rack, number, node) in enumerate(names)
    ]
    return {slot.name: slot for slot in made}


def _mac(of: int, rack: int, node: int) -> str:
    return f"02:6e:77:{of:02x}:{rack:02x}:{node:02x}"


# The network is routed, not bridged: to a neighbour on one Ethernet, a host whose link is down is "no route to host"
# after three seconds of ARP; behind a router it is silence, as between racks. So every host is its own /32 behind a
# router with fixed neighbours, and what has no route is dropped without a word.


def router_lines(plan: Plan) -> list[str]:
    """Return the `ip -batch` lines that make the router, and its link to the launching side."""
    uplink = f"name {plan.uplink} address {_UPLINK_MAC} netns {plan.owner}"
    lines = [
        "link set lo up",
        f"route add blackhole {plan.network}",
        f"link add up0 address {ROUTER_MAC} type veth peer {uplink}",
        "link set up0 up",
        f"route add {plan.launcher_address}/32 dev up0",
        f"neigh add {plan.launcher_address} lladdr {_UPLINK_MAC} dev up0 nud permanent",
    ]
    if BASTION in plan.slots:
        bastion = plan.slots[BASTION].address
        lines += [
            f"rule add pref 100 iif up0 to {bastion} lookup main",
            "rule add pref 101 iif up0 blackhole",
            f"rule add pref 102 from {bastion} to {plan.launcher_address} lookup main",
            f"rule add pref 103 to {plan.launcher_address} blackhole",
        ]
    return lines


def launcher_lines(plan: Plan) -> list[str]:
    """Return the lines that give the launching side its address and its route; both go with the interface."""
    return [
        f"addr add {plan.launcher_address}/32 dev {plan.uplink}",
        f"link set {plan.uplink} up",
        f"neigh add {plan.router_address} lladdr {ROUTER_MAC} dev {plan.uplink} nud permanent",
        f"route add {plan.network} via {plan.router_address} dev {plan.uplink} onlink src {plan.launcher_address}",
    ]


def wire(slot: Slot, boots: int) -> str:
    """Return the router's interface to a host: one a boot, as the kernel removes the last one when it likes."""
    return f"h{slot.number}.{boots}"


def cable_lines(slot: Slot, boots: int, pid: int) -> list[str]:
    """Return the lines that plug the host whose PID 1 is `pid` into the router."""
    name = wire(slot, boots)
    peer = f"name eth0 address {slot.mac} netns {pid}"
    return [f"link add {name} address {ROUTER_MAC} type veth peer {peer}", *link_up_lines(slot, boots)]


def link_up_lines(slot: Slot, boots: int) -> list[str]:
    """Return the lines that bring the cable up; down takes route and neighbour with it."""
    name = wire(slot, boots)
    return [
        f"link set {name} up",
        f"route add {slot.address}/32 dev {name}",
        f"neigh replace {slot.address} lladdr {slot.mac} dev {name} nud permanent",
    ]


def host_lines(slot: Slot) -> list[str]:
    """Return the lines that a host runs itself at boot."""
    return [
        "link set lo up",
        f"addr add {slot.address}/32 dev eth0",
        "link set eth0 up",
        f"neigh add {GATEWAY} lladdr {ROUTER_MAC} dev eth0 nud permanent",
        f"route add default via {GATEWAY} dev eth0 onlink",
    ]
