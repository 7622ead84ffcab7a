"""Read the racks of an inventory file.

Ranges are expanded, defaults of file and rack applied, and duplicates reported.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from launcher.config.inventory.fields import GPUS, RACK
from launcher.config.schema.patterns import LABEL, node_name
from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.nodes import Mark
from launcher.config.yaml.values import Values
from launcher.core.model.address import canonical, is_loopback, read_ip
from launcher.core.model.inventory import Access, GpuDriver, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName, expand, repeated

SSH_PORT = 22

_OF_ONE = ("address", "tray", "host_key")
"""Keys that two nodes cannot have in common."""


# 127.0.0.x and 127.0.1.1 are in use on many machines (localhost, Debian's name of the host itself).
_FIRST_LOCAL_RACK = 11


@dataclass(frozen=True, slots=True)
class _RackNode:
    """One node of a rack: its own settings, and all settings including defaults."""

    name: str
    mark: Mark
    own: Values
    values: Values
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Common:
    """What all nodes of one entry have in common."""

    access: Access
    domain: str | None
    gpus: int
    accelerator: str | None
    drained: str | None
    gpu_driver: GpuDriver


class RackReader:
    """Reads the racks of a file; names and addresses must be unique in all."""

    def __init__(self, defaults: Values, transport: Transport, levels: tuple[str, ...], out: Diagnostics) -> None:
        self._defaults = defaults
        self._transport = transport
        self._levels = levels
        self._out = out
        self._racks = 0
        self._names: dict[str, tuple[str, Mark]] = {}
        self._addresses: dict[tuple[object, ...], _RackNode] = {}
        self._loopbacks: list[tuple[str, Mark]] = []
        self._last: tuple[Values, _Common] | None = None

    def read(self, name: str, rack: Values) -> tuple[Node, ...]:
        """Return the nodes of a rack in tray order; wrong ones are reported and omitted."""
        self._racks += 1
        places = self._places(rack)
        listed = list(self._listed(rack))
        trays = _trays(listed, self._out)
        return tuple(
            self._node(name, node, places, tray, number)
            for number, (node, tray) in enumerate(zip(listed, trays, strict=True), start=1)
        )

    def check_loopback(self, machines: int) -> None:
        """Report nodes that no other machine can reach; alone, a node needs to be reached by none."""
        for address, mark in self._loopbacks if machines > 1 else ():
            what = f"`{address}` leads every machine to itself, but the nodes of a run reach each other by `address`"
            self._out.mistake(mark, what, "write an address that other nodes can reach")

    def _places(self, rack: Values) -> dict[str, str]:
        places: dict[str, str] = {}
        for key, found in rack.rest.items():
            if key not in self._levels[:-1]:
                otherwise = f"if it is a level above the rack, list it: `levels: [{key}, rack]`"
                RACK.unknown(key, found.key, self._out, more=self._levels[:-1], otherwise=otherwise)
            elif isinstance(found.value, str):
                places[key] = found.value
        return {level: places[level] for level in self._levels if level in places}

    def _listed(self, rack: Values) -> Iterator[_RackNode]:
        shared = rack.over(self._defaults)
        for text, found in rack.entries("nodes").items():
            own = found.value if isinstance(found.value, Values) else Values(found.mark)
            values, env = own.over(shared), _env((self._defaults, rack, own))
            names = self._expanded(text, found.key)
            for key in _OF_ONE if len(names) > 1 else ():
                if own.has(key):
                    what = f"`{key}` cannot be the same for {len(names)} nodes"
                    self._out.mistake(own.key_of(key), what, "write an entry for each node")
            for name in names:
                if self._is_new(name, found.key):
                    yield _RackNode(name, found.key, own, values, env)

    def _expanded(self, text: str, mark: Mark) -> tuple[str, ...]:
        try:
            names = expand(text)
        except ValueError as error:
            self._out.mistake(mark, str(error), "write a range as `r07-n[01-18]`")
            return ()
        if twice := repeated(text):
            self._out.mistake(mark, f"node `{twice[0]}` is named twice in `{text[:60]}`", "name each node once")
        for name in names:
            if not re.fullmatch(LABEL, name):
                self._out.mistake(mark, f"`{name}` is not {node_name.expected}", node_name.hint)
                return ()
        return names

    def _is_new(self, name: str, mark: Mark) -> bool:
        if name.casefold() not in self._names:
            self._names[name.casefold()] = name, mark
            return True
        first, at = self._names[name.casefold()]
        if first == name:
            self._out.mistake(mark, f"node `{name}` is also on line {at.line}", "list each node once, in one rack")
        else:
            what = f"node `{name}` differs only in case from `{first}` on line {at.line}"
            self._out.mistake(mark, what, "give them other names: DNS and SSH take both for one")
        return False

    def _node(self, rack: str, node: _RackNode, places: Mapping[str, str], tray: int | None, number: int) -> Node:
        common = self._common(node.values)
        pretended = common.gpu_driver is GpuDriver.NONE or not self._transport.capabilities.own_machines
        return Node(
            name=NodeName(node.name),
            rack=RackName(rack),
            access=self._access(node, common.access, number),
            domain=common.domain or (rack if pretended else None),
            gpus=common.gpus,
            accelerator=common.accelerator,
            tray=tray,
            places=places,
            drained=common.drained,
            gpu_driver=common.gpu_driver,
            env=node.env,
        )

    def _common(self, values: Values) -> _Common:
        """Return what nodes of one entry have in common; read once for all of them."""
        if self._last is None or self._last[0] is not values:
            local = self._transport.capabilities.this_machine
            driver = values.get("gpu_driver", str) or (GpuDriver.NONE if local else GpuDriver.NVIDIA)
            gpus = values.get("gpus", int)
            common = _Common(
                access=_login(values, self._out),
                domain=values.get("domain", str),
                gpus=GPUS if gpus is None else gpus,
                accelerator=values.get("accelerator", str),
                drained=values.get("drained", str),
                gpu_driver=GpuDriver(driver),
            )
            self._last = values, common
        return self._last[1]

    def _access(self, node: _RackNode, login: Access, number: int) -> Access:
        address = node.own.get("address", str)
        if address is None:
            address = self._local_address(node, number) if self._transport.capabilities.this_machine else node.name
        _check_address(address, node.values, self._out)
        access = replace(login, address=address)
        key = (canonical(access.address), access.port or SSH_PORT, access.proxy_jump)
        first = self._addresses.setdefault(key, node)
        if first is not node:
            mark = node.own.mark_of("address") if node.own.has("address") else node.mark
            what = f"node `{node.name}` has the same address as `{first.name}` on line {first.mark.line}"
            self._out.mistake(mark, f"{what}, `{access.address}`", "give each node its own address")
        if self._transport.capabilities.own_machines and is_loopback(access.address):
            self._loopbacks.append((access.address, node.own.mark_of("address")))
        return access

    def _local_address(self, node: _RackNode, number: int) -> str:
        if number > 254:
            hint = "set `address:` for the other nodes"
            self._out.mistake(node.mark, "a local rack has addresses for only 254 nodes", hint)
        rack = self._racks + _FIRST_LOCAL_RACK - 1
        return f"127.{rack // 256 % 256}.{rack % 256}.{number}"


def _wheels(values: Values, out: Diagnostics) -> str | None:
    """Return the folder of wheels.

    An absolute path may be on the nodes, a relative one must exist on this machine.
    """
    written = values.get("wheels", str)
    if written is None:
        return None
    if written.startswith(("/", "~/")):
        return written
    here = Path(written).absolute()
    if not here.is_dir():
        hint = f"relative paths start in the current folder of this machine, `{Path.cwd()}`"
        out.mistake(values.mark_of("wheels"), f"`wheels: {written}` is not a folder", hint)
    return str(here)


def read_access(address: str, values: Values, out: Diagnostics) -> Access:
    """Return the login settings of a machine."""
    _check_address(address, values, out)
    return replace(_login(values, out), address=address)


def _check_address(address: str, values: Values, out: Diagnostics) -> None:
    if ":" in address and read_ip(address) is None:
        hint = "write the port as `port`, and IPv6 without brackets"
        out.mistake(values.mark_of("address"), f"`address: {address}` is neither a host name nor an address", hint)
    if (ip := read_ip(address)) and ip.is_link_local:
        what = f"`address: {address}` holds on one link only, and Ray cannot use it"
        out.mistake(values.mark_of("address"), what, "write an address that all nodes can reach")


def _login(values: Values, out: Diagnostics) -> Access:
    """Return the login settings that machines have in common; none has its address yet."""
    return Access(
        address="",
        user=values.get("user", str),
        port=values.get("port", int),
        identity_file=values.get("identity_file", str),
        proxy_jump=values.get("proxy_jump", str),
        host_key=values.get("host_key", str),
        python=values.get("python", str),
        wheels=_wheels(values, out),
    )


def _trays(listed: list[_RackNode], out: Diagnostics) -> list[int | None]:
    """Return the tray of each node; without any, its position in the list."""
    written = [node.own.get("tray", int) for node in listed]
    if all(tray is None for tray in written):
        return list(range(len(listed)))
    first: dict[int, str] = {}
    for node, tray in zip(listed, written, strict=True):
        if tray is not None and first.setdefault(tray, node.name) != node.name:
            what = f"nodes `{first[tray]}` and `{node.name}` are both in tray {tray}"
            out.mistake(node.own.mark_of("tray"), what, "give each node its own tray; trays count from 0")
    return written


def _env(layers: tuple[Values, ...]) -> dict[str, str]:
    env: dict[str, str] = {}
    for values in layers:
        env |= {name: found.value for name, found in values.entries("env").items() if isinstance(found.value, str)}
    return env
