"""Read an inventory file, and choose one if the command line names none."""

import difflib
import itertools
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from launcher.config.inventory.built_in import built_in
from launcher.config.inventory.checks import read_checks
from launcher.config.inventory.fields import INVENTORY, LEASE_PATH, RACK
from launcher.config.inventory.link_speeds import read_links
from launcher.config.inventory.racks import RackReader, read_access
from launcher.config.inventory.storage import read_storage
from launcher.config.schema.patterns import LABEL
from launcher.config.yaml.diagnostics import Diagnostics, KeyPath
from launcher.config.yaml.document import only_document, parse_documents
from launcher.config.yaml.text_file import read_text
from launcher.config.yaml.values import Values
from launcher.core.model.container import Engine
from launcher.core.model.inventory import (
    ANY_LEVEL,
    NODE_LEVEL,
    RACK_LEVEL,
    Access,
    DefragPolicy,
    HostKeyPolicy,
    ImexMode,
    Inventory,
    Node,
    RackName,
    Transport,
)
from launcher.core.model.nodeset import NodeName
from launcher.core.model.simulation import Fault, FaultKind, SimSettings
from launcher.errors import Mistake, SpecError

VARIABLE = "NVLAUNCH_INVENTORY"
FILE_NAME = "inventory.yaml"
BUILT_IN = "built-in"


def find_inventory(given: str | None, env: Mapping[str, str], home: Path) -> Inventory:
    """Return the inventory to use.

    It is `given`, that of $NVLAUNCH_INVENTORY, that of `home`, or the built-in local racks. The name `built-in` selects
    the last. `source` of the result is the chosen file. SpecError if it cannot be read.
    """
    if given == "":
        hint = f"name a file, or `{BUILT_IN}` for the built-in local racks"
        raise SpecError((Mistake(what="the name of the inventory is empty", where="-i", hint=hint),))
    for chosen, option in ((given, "-i"), (env.get(VARIABLE), f"${VARIABLE}")):
        if chosen == BUILT_IN:
            return built_in()
        if chosen:
            return _read_named(Path(chosen), option)
    own = home / FILE_NAME
    return read_inventory(own) if own.exists() else built_in()


def _read_named(path: Path, option: str) -> Inventory:
    try:
        return read_inventory(path)
    except SpecError as error:
        missing = not path.exists() and error.mistakes[0].hint is None
        if not missing:
            raise
        hint = f"{option} names this file; use `{BUILT_IN}` for the built-in local racks"
        raise SpecError((replace(error.mistakes[0], hint=hint),)) from error


def read_inventory(path: Path) -> Inventory:
    """Return the inventory of a file, with its nodes in file order.

    SpecError with every mistake.
    """
    return parse_inventory(read_text(path, what="inventory file"), path)


def parse_inventory(text: str, path: Path) -> Inventory:
    """Return the inventory of a text.

    `path` is its file in messages, and gives the default name.
    """
    document = only_document(parse_documents(text, str(path), what="inventory"))
    out = Diagnostics(document.where, document.mistakes)
    values = INVENTORY.read(document.root, KeyPath("", out))
    transport = Transport(values.get("transport", str) or Transport.SSH.value)
    levels = _levels(values, out)
    defaults = values.section("defaults")
    reader = RackReader(defaults, transport, levels, out)
    nodes = _nodes(values, reader, out)
    reader.check_loopback(len(nodes))
    _check_nesting(nodes, levels, values, out)
    inventory = Inventory(
        name=_name(path, values, out),
        transport=transport,
        nodes=nodes,
        levels=levels,
        head=_head(values, defaults, out),
        fence_command=_power_command("fence_command", "power off", values, out),
        power_query=_power_command("power_query", "ask about", values, out),
        lease_path=values.get("lease_path", str) or LEASE_PATH,
        host_keys=HostKeyPolicy(values.get("host_keys", str) or HostKeyPolicy.LEARN.value),
        ray_tls=values.get("ray_tls", bool) or False,
        container_engine=Engine(engine) if (engine := values.get("container_engine", str)) else None,
        imex=ImexMode(values.get("imex", str) or ImexMode.ADOPT.value),
        sim=_sim(values, transport, nodes, out),
        defrag=_defrag(values.section("defrag"), out),
        checks=read_checks(values.section("checks"), path, out),
        source=str(path),
        storage=read_storage(values.entries("storage"), out),
        links=read_links(defaults, _racks(values), nodes),
    )
    out.finish()
    return inventory


def _nodes(values: Values, reader: RackReader, out: Diagnostics) -> tuple[Node, ...]:
    nodes = [node for name, rack in _racks(values).items() for node in reader.read(name, rack)]
    if not nodes and not out.has_mistakes():
        out.mistake(values.mark_of("racks"), "the inventory has no nodes", "list the nodes of each rack")
    return tuple(nodes)


def _racks(values: Values) -> dict[RackName, Values]:
    racks = values.entries("racks").items()
    return {RackName(name): found.value for name, found in racks if isinstance(found.value, Values)}


def _levels(values: Values, out: Diagnostics) -> tuple[str, ...]:
    """Return the levels from coarse to fine.

    The last is `rack`, whether it is written or not.
    """
    written = values.texts("levels")
    mark = values.mark_of("levels")
    for level in written:
        if level in (NODE_LEVEL, ANY_LEVEL) or level in RACK.fields:
            out.mistake(mark, f"`{level}` cannot be the name of a level: it is reserved", "use another name")
    for level in sorted({level for level in written if written.count(level) > 1}):
        out.mistake(mark, f"level `{level}` is listed twice", "remove one of the two")
    if RACK_LEVEL in written[:-1]:
        out.mistake(mark, "`rack` must be the last of `levels`", "list them from coarse to fine")
    return (*(level for level in written if level != RACK_LEVEL), RACK_LEVEL)


def _check_nesting(nodes: tuple[Node, ...], levels: tuple[str, ...], values: Values, out: Diagnostics) -> None:
    """Report a domain that is in two coarser domains: names must be unique."""
    inside: dict[tuple[str, str, str], str] = {}
    for node in {node.rack: node for node in nodes}.values():
        for coarse, fine in itertools.pairwise(levels[:-1]):
            outer, inner = node.at(coarse), node.at(fine)
            if outer is None or inner is None:
                continue
            first = inside.setdefault((coarse, fine, inner), outer)
            if first != outer:
                what = f"{fine} `{inner}` is in {coarse} `{first}` and in {coarse} `{outer}`"
                mark = values.entries("racks")[node.rack].key
                out.mistake(mark, what, f"give each {fine} a unique name")


def _name(path: Path, values: Values, out: Diagnostics) -> str:
    written = values.get("name", str)
    if written is None and not values.has("name") and not re.fullmatch(LABEL, path.stem):
        out.mistake(values.mark, "the inventory has no name, and the name of the file is not valid", "add `name:`")
    return written or path.stem


def _head(values: Values, defaults: Values, out: Diagnostics) -> Access | None:
    head = values.section("head")
    address = head.get("address", str)
    return read_access(address, head.over(defaults), out) if address else None


def _power_command(key: str, does: str, values: Values, out: Diagnostics) -> str | None:
    command = values.get(key, str)
    if command is not None and "{node}" not in command and "{address}" not in command:
        what = f"`{key}` contains neither `{{node}}` nor `{{address}}`, so it would always {does} the same machine"
        out.mistake(values.mark_of(key), what, "write `{node}` in place of the name of the node")
    return command


def _sim(values: Values, transport: Transport, nodes: tuple[Node, ...], out: Diagnostics) -> SimSettings | None:
    if not transport.capabilities.imaginary:
        if values.has("sim"):
            hint = "write `transport: sim` for imaginary nodes, or remove `sim`"
            out.mistake(values.key_of("sim"), f"`sim` has no effect with `transport: {transport.value}`", hint)
        return None
    sim = values.section("sim")
    default = SimSettings()

    def seconds(name: str, otherwise: float) -> float:
        number = sim.get(name, float)
        return otherwise if number is None else number

    seed = sim.get("seed", int)
    return SimSettings(
        seed=default.seed if seed is None else seed,
        start_s=seconds("start_s", default.start_s),
        run_s=seconds("run_s", default.run_s),
        speed=seconds("speed", default.speed),
        faults=_faults(sim, {node.name for node in nodes}, out),
    )


def _defrag(values: Values, out: Diagnostics) -> DefragPolicy:
    default = DefragPolicy()
    budget, benefit = values.get("budget_gpu_hours_per_day", float), values.get("min_benefit", float)
    spans = [tuple(map(_minutes, text.split("-"))) for text in values.texts("quiet_hours")]
    if any(begin == end for begin, end in spans):
        hint = "to switch moves off, write `budget_gpu_hours_per_day: 0`"
        out.mistake(values.mark_of("quiet_hours"), "`quiet_hours` begin and end at the same time", hint)
    return DefragPolicy(
        budget_gpu_hours_per_day=default.budget_gpu_hours_per_day if budget is None else budget,
        quiet_hours=tuple((begin, end) for begin, end in spans),
        min_benefit=default.min_benefit if benefit is None else benefit,
    )


def _minutes(text: str) -> int:
    """Return the minutes since midnight of `HH:MM`."""
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)


def _faults(sim: Values, names: set[NodeName], out: Diagnostics) -> tuple[Fault, ...]:
    read = [fault for fault in sim.get("faults", tuple) or () if isinstance(fault, Values)]
    return tuple(fault for values in read if (fault := _fault(values, names, out)) is not None)


def _fault(fault: Values, names: set[NodeName], out: Diagnostics) -> Fault | None:
    at, written, kind = fault.get("at", float), fault.get("node", str), fault.get("fault", str)
    if at is None or written is None or kind is None:
        return None
    node, peer = NodeName(written), fault.get("peer", str)
    for name, key in ((written, "node"), (peer, "peer")):
        if name is not None and name not in names:
            near = difflib.get_close_matches(name, sorted(names), n=1)
            hint = f"did you mean `{near[0]}`?" if near else "name a node of `racks`"
            out.mistake(fault.mark_of(key), f"node `{name}` is not in the inventory", hint)
    if FaultKind(kind) is FaultKind.SLOW_LINK and (not fault.has("peer") or peer == written):
        hint = "write `peer:` with the node at the other end"
        out.mistake(fault.mark_of("fault"), f"`{kind}` needs two nodes", hint)
    code, factor = fault.get("code", int), fault.get("factor", float)
    return Fault(
        at=at,
        node=node,
        fault=FaultKind(kind),
        duration=fault.get("duration", float),
        code=3 if code is None else code,
        peer=None if peer is None else NodeName(peer),
        factor=2.0 if factor is None else factor,
    )
