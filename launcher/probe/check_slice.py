"""Compare the nodes of a slice: which values must be equal, which differ."""

from collections.abc import Callable, Sequence

from launcher.core.model.inventory import GpuDriver, Node
from launcher.core.model.nodeset import NodeName, fold
from launcher.probe.check_gpu import domain_of
from launcher.probe.check_system import MAX_SKEW, MAX_SKEW_TO_START
from launcher.probe.findings import Fact, Finding, bad, cannot_tell, good
from launcher.probe.imex import ImexFiles
from launcher.probe.node_facts import Facts
from launcher.probe.results import Unknown

Member = tuple[Node, Facts]


def check_slice(members: Sequence[Member]) -> tuple[Finding, ...]:
    """Return a finding for each value that the nodes of a slice must share.

    They are in the order of `Fact`.
    """
    given = [member for member in members if member[0].access.python is not None]
    with_gpus = [member for member in members if member[0].gpu_driver is not GpuDriver.NONE]
    found = (
        _equal(Fact.HOST, "architecture", members, _machine),
        _spread(members),
        _equal(Fact.PYTHON, "Python version", given, _python),
        _equal(Fact.RAY, "Ray version", given, _ray),
        _equal(Fact.DRIVER, "driver version", with_gpus, _driver),
        _equal(Fact.DOMAIN, "NVLink domain", with_gpus, domain_of),
        _equal(Fact.IMEX, "IMEX node list", with_gpus, _imex),
    )
    return tuple(finding for finding in found if finding is not None)


def check_machines(members: Sequence[Member]) -> tuple[Finding, ...]:
    """Return a finding for each machine that nodes of different names are; all but the first of them are named.

    A boot and its process namespace are one machine. What is on its disk, as the machine id, is that of its clones too.
    """
    found: dict[tuple[str, str], list[Node]] = {}
    for node, facts in members:
        if not isinstance(facts.host, Unknown) and facts.host.boot_id and facts.host.instance:
            found.setdefault((facts.host.boot_id, facts.host.instance), []).append(node)
    return tuple(
        bad(
            Fact.HOST,
            f"{fold(node.name for node in same)} are one machine under {len(same)} names "
            f"({', '.join(node.access.address for node in same[:4])}): keep only one in the inventory",
            nodes=tuple(node.name for node in same[1:]),
        )
        for same in found.values()
        if len(same) > 1
    )


def _machine(facts: Facts) -> str | None:
    return None if isinstance(facts.host, Unknown) else facts.host.machine


def _python(facts: Facts) -> str | None:
    return None if isinstance(facts.python, Unknown) else ".".join(map(str, facts.python.version))


def _ray(facts: Facts) -> str | None:
    return None if isinstance(facts.python, Unknown) else facts.python.ray


def _driver(facts: Facts) -> str | None:
    return None if isinstance(facts.driver, Unknown) else facts.driver.version


def _imex(facts: Facts) -> str | None:
    """Return the beginning of the hash, which is enough to compare."""
    files = facts.imex_files
    return files.nodes_hash[:12] if isinstance(files, ImexFiles) and files.nodes_hash else None


def _equal(fact: Fact, what: str, members: Sequence[Member], value: Callable[[Facts], str | None]) -> Finding | None:
    """Compare one value; None if no node has it.

    Nodes are named that differ from the majority.
    """
    found: dict[str | None, list[NodeName]] = {}
    for node, facts in members:
        found.setdefault(value(facts), []).append(node.name)
    hidden = tuple(found.pop(None, ()))
    if not found:
        return None
    ordered = sorted(found, key=lambda one: (-len(found[one]), one))
    common, known = ordered[0], sum(map(len, found.values()))
    if len(found) > 1:
        shown = tuple(f"{fold(found[one])}: {one}" for one in ordered)
        most = 2 * len(found[common]) > known
        differ = {name for one in ordered[1:] for name in found[one]} if most else set()
        others = tuple(node.name for node, _ in members if node.name in differ)
        return bad(fact, f"{what} differs: {'; '.join(shown[:4])}", *shown, nodes=others)
    if hidden:
        return cannot_tell(fact, f"{what} {common}, but unknown on {fold(hidden)}", nodes=hidden)
    return good(fact, f"{what} {common} on all {known} nodes")


def _spread(members: Sequence[Member]) -> Finding | None:
    """Compare the clocks; None if fewer than two are known."""
    known = sorted((facts.clock, node.name) for node, facts in members if not isinstance(facts.clock, Unknown))
    if len(known) < 2:
        return None
    (least, behind), (most, ahead) = known[0], known[-1]
    spread = most - least
    if spread <= MAX_SKEW:
        return good(Fact.CLOCK, f"clocks within {spread:.1f} s")
    message = f"clocks are {spread:.1f} s apart, from `{behind}` to `{ahead}`; synchronise them with chrony or ntpd"
    stops = spread > MAX_SKEW_TO_START
    # Of two clocks, neither can be named as the wrong one.
    middle, limit = known[len(known) // 2][0], (MAX_SKEW_TO_START if stops else MAX_SKEW) / 2
    off = tuple(name for clock, name in known if len(known) > 2 and abs(clock - middle) > limit)
    return bad(Fact.CLOCK, message, nodes=off, stops=stops)
