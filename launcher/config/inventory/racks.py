"""Racks of an inventory file to nodes: ranges spelled out, defaults overridden by rack and node, names unique."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from launcher.config.inventory.fields import GPUS, RACK
from launcher.config.schema.patterns import LABEL, label
from launcher.config.schema.shapes import Text
from launcher.config.yaml.nodes import Mark
from launcher.config.yaml.reading import Reading, Values
from launcher.core.model.inventory import Access, GpuDriver, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName, expand

_OF_ONE = ("address", "tray", "host_key")
_NODE_NAME = Text(word="the name of a node", pattern=LABEL, hint=label.hint)

# 127.0.0.x and 127.0.1.1 are taken on many machines (localhost, Debian's name of the host itself).
_FIRST_LOCAL_RACK = 11


@dataclass(frozen=True, slots=True)
class _Slot:
    """One name of a rack's list: what is written for it alone, and all that holds for it."""

    name: str
    mark: Mark
    own: Values
    values: Values
    env: Mapping[str, str]


class RackReader:
    """Reads one rack after another, and remembers every name and address for the next."""

    def __init__(self, defaults: Values, transport: Transport, levels: tuple[str, ...], out: Reading) -> None:
        self._defaults = defaults
        self._transport = transport
        self._levels = levels
        self._out = out
        self._racks = 0
        self._names: dict[str, Mark] = {}
        self._addresses: dict[tuple[object, ...], str] = {}

    def read(self, name: str, rack: Values) -> tuple[Node, ...]:
        """Return the nodes of a rack in tray order; those that are wrong are noted and left out."""
        self._racks += 1
        places = self._places(rack)
        slots = list(self._slots(rack))
        trays = _trays(slots, self._out)
        return tuple(
            self._node(name, slot, places, tray, number)
            for number, (slot, tray) in enumerate(zip(slots, trays, strict=True), start=1)
        )

    def _places(self, rack: Values) -> dict[str, str]:
        places: dict[str, str] = {}
        for key, found in rack.rest.items():
            if key not in self._levels[:-1]:
                otherwise = f"a level above the rack must be listed in `levels`: [{key}, rack]"
                RACK.unknown(key, found.key, self._out, more=self._levels[:-1], otherwise=otherwise)
            elif isinstance(found.value, str):
                places[key] = found.value
        return {level: places[level] for level in self._levels if level in places}

    def _slots(self, rack: Values) -> Iterator[_Slot]:
        shared = rack.over(self._defaults)
        for text, found in rack.entries("nodes").items():
            own = found.value if isinstance(found.value, Values) else Values(found.mark)
            values, env = own.over(shared), _env((self._defaults, rack, own))
            names = self._expanded(text, found.key)
            for key in _OF_ONE if len(names) > 1 else ():
                if own.has(key):
                    self._out.mistake(own.key_of(key), f"`{key}` of {len(names)} nodes at once", "name each node")
            for name in names:
                if self._is_new(name, found.key):
                    yield _Slot(name, found.key, own, values, env)

    def _expanded(self, text: str, mark: Mark) -> tuple[str, ...]:
        try:
            names = expand(text)
        except ValueError as error:
            self._out.mistake(mark, str(error), "a range is written `r07-n[01-18]`")
            return ()
        for name in names:
            if not re.fullmatch(LABEL, name):
                self._out.mistake(mark, f"`{name}` cannot be {_NODE_NAME.word}", _NODE_NAME.hint)
                return ()
        return names

    def _is_new(self, name: str, mark: Mark) -> bool:
        if name in self._names:
            line = self._names[name].line
            self._out.mistake(mark, f"node `{name}` stands on line {line} as well", "a node is in one rack, once")
            return False
        self._names[name] = mark
        return True

    def _node(self, rack: str, slot: _Slot, places: Mapping[str, str], tray: int | None, number: int) -> Node:
        values = slot.values
        local = self._transport is Transport.LOCAL
        driver = GpuDriver(values.get("gpu_driver", str) or (GpuDriver.NONE if local else GpuDriver.NVIDIA))
        pretended = driver is GpuDriver.NONE or self._transport is not Transport.SSH
        gpus = values.get("gpus", int)
        return Node(
            name=NodeName(slot.name),
            rack=RackName(rack),
            access=self._access(slot, number),
            domain=values.get("domain", str) or (rack if pretended else None),
            gpus=GPUS if gpus is None else gpus,
            accelerator=values.get("accelerator", str),
            tray=tray,
            places=places,
            drained=values.get("drained", str),
            gpu_driver=driver,
            env=slot.env,
        )

    def _access(self, slot: _Slot, number: int) -> Access:
        address = slot.own.get("address", str)
        if address is None:
            address = self._local_address(slot, number) if self._transport is Transport.LOCAL else slot.name
        access = read_access(address, slot.values, self._out)
        key = (access.address, access.port, access.proxy_jump)
        first = self._addresses.setdefault(key, slot.name)
        if first != slot.name:
            mark = slot.own.mark_of("address")
            what = f"nodes `{first}` and `{slot.name}` have one address, `{access.address}`"
            self._out.mistake(mark, what, "each node is a machine of its own")
        return access

    def _local_address(self, slot: _Slot, number: int) -> str:
        if number > 254:
            hint = "give `address:` for the others"
            self._out.mistake(slot.mark, "a local rack has addresses for 254 nodes", hint)
        rack = self._racks + _FIRST_LOCAL_RACK - 1
        return f"127.{rack // 256 % 256}.{rack % 256}.{number}"


def _wheels(values: Values, out: Reading) -> str | None:
    """Return the folder as the nodes may have it too, a relative one as this machine has it."""
    written = values.get("wheels", str)
    if written is None:
        return None
    if written.startswith(("/", "~/")):
        return written
    here = Path(written).absolute()
    if not here.is_dir():
        hint = f"a relative one is on this machine, in the current folder, `{Path.cwd()}`"
        out.mistake(values.mark_of("wheels"), f"`wheels: {written}` is not a folder", hint)
    return str(here)


def read_access(address: str, values: Values, out: Reading) -> Access:
    """Return how to log in to a machine."""
    return Access(
        address=address,
        user=values.get("user", str),
        port=values.get("port", int),
        identity_file=values.get("identity_file", str),
        proxy_jump=values.get("proxy_jump", str),
        host_key=values.get("host_key", str),
        python=values.get("python", str),
        wheels=_wheels(values, out),
    )


def _trays(slots: list[_Slot], out: Reading) -> list[int | None]:
    """Return each node's tray: as written, or its place in the list where the rack writes none."""
    written = [slot.own.get("tray", int) for slot in slots]
    if all(tray is None for tray in written):
        return list(range(len(slots)))
    first: dict[int, str] = {}
    for slot, tray in zip(slots, written, strict=True):
        if tray is not None and first.setdefault(tray, slot.name) != slot.name:
            what = f"nodes `{first[tray]}` and `{slot.name}` are both in tray {tray}"
            out.mistake(slot.own.mark_of("tray"), what, "trays of a rack count from 0")
    return written


def _env(layers: tuple[Values, ...]) -> dict[str, str]:
    env: dict[str, str] = {}
    for values in layers:
        env |= {name: found.value for name, found in values.entries("env").items() if isinstance(found.value, str)}
    return env
