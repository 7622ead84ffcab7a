"""The nodes of a slice, judged against one another: what has to be equal, and who differs."""

from collections import Counter
from collections.abc import Callable, Sequence

from launcher.core.model.inventory import GpuDriver, Node
from launcher.core.model.nodeset import NodeName, fold
from launcher.probe.answer import Unknown
from launcher.probe.collect import Facts
from launcher.probe.imex import ImexFiles
from launcher.probe.judge_gpu import domain_of
from launcher.probe.judge_system import MAX_SKEW, MAX_SKEW_TO_START
from launcher.probe.report import Fact, Finding, bad, cannot_tell, good

Member = tuple[Node, Facts]


def judge_slice(members: Sequence[Member]) -> tuple[Finding, ...]:
    """Return what has to be equal over the nodes of a slice, and is or is not, in the order of `Fact`."""
    given = [member for member in members if member[0].access.python is not None]
    with_gpus = [member for member in members if member[0].gpu_driver is not GpuDriver.NONE]
    found = (
        _equal(Fact.HOST, "architecture", members, _machine),
        _spread(members),
        _equal(Fact.PYTHON, "Python", given, _python),
        _equal(Fact.RAY, "Ray", given, _ray),
        _equal(Fact.DRIVER, "driver", with_gpus, _driver),
        _equal(Fact.DOMAIN, "NVLink domain", with_gpus, domain_of),
        _equal(Fact.IMEX, "node list of IMEX", with_gpus, _imex),
    )
    return tuple(finding for finding in found if finding is not None)


def _machine(facts: Facts) -> str | None:
    return None if isinstance(facts.host, Unknown) else facts.host.machine


def _python(facts: Facts) -> str | None:
    return None if isinstance(facts.python, Unknown) else ".".join(map(str, facts.python.version))


def _ray(facts: Facts) -> str | None:
    return None if isinstance(facts.python, Unknown) else facts.python.ray


def _driver(facts: Facts) -> str | None:
    return None if isinstance(facts.driver, Unknown) else facts.driver.version


def _imex(facts: Facts) -> str | None:
    """The beginning of the hash is enough to tell two lists apart, and to show."""
    files = facts.imex_files
    return files.nodes_hash[:12] if isinstance(files, ImexFiles) and files.nodes_hash else None


def _equal(fact: Fact, what: str, members: Sequence[Member], value: Callable[[Facts], str | None]) -> Finding | None:
    """Judge one value over the slice; None where nobody has one. Who differs from more than half is named."""
    values = {node.name: value(facts) for node, facts in members}
    counted = Counter(found for found in values.values() if found is not None)
    if not counted:
        return None
    common = min(counted, key=lambda found: (-counted[found], found))
    if len(counted) > 1:
        shown = tuple(f"{_nodes(values, found)}: {found}" for found in sorted(counted, key=lambda f: (-counted[f], f)))
        most = 2 * counted[common] > counted.total()
        others = tuple(name for name, found in values.items() if most and found not in (None, common))
        return bad(fact, f"not one {what}: {'; '.join(shown[:4])}", *shown, nodes=others)
    hidden = tuple(name for name, found in values.items() if found is None)
    if hidden:
        return cannot_tell(fact, f"{what} {common}, but unknown on {fold(hidden)}", nodes=hidden)
    return good(fact, f"{what} {common} on all {len(values)}")


def _nodes(values: dict[NodeName, str | None], wanted: str) -> str:
    return fold(name for name, found in values.items() if found == wanted)


def _spread(members: Sequence[Member]) -> Finding | None:
    """Judge how far the clocks are apart."""
    known = sorted((facts.clock, node.name) for node, facts in members if not isinstance(facts.clock, Unknown))
    if len(known) < 2:
        return None
    (least, behind), (most, ahead) = known[0], known[-1]
    spread = most - least
    if spread <= MAX_SKEW:
        return good(Fact.CLOCK, f"clocks within {spread:.1f} s")
    message = f"clocks are {spread:.1f} s apart, from `{behind}` to `{ahead}`: let chrony or ntpd set them"
    stops = spread > MAX_SKEW_TO_START
    # Of two, neither is the one that is wrong.
    middle, limit = known[len(known) // 2][0], (MAX_SKEW_TO_START if stops else MAX_SKEW) / 2
    off = tuple(name for clock, name in known if len(known) > 2 and abs(clock - middle) > limit)
    return bad(Fact.CLOCK, message, nodes=off, stops=stops)
