"""An inventory held against its nodes, to prose and to JSON."""

from collections.abc import Sequence

from launcher.admission.locate import Survey
from launcher.cli.output.console import clean
from launcher.cli.output.table import table
from launcher.core.discovery.diff import Difference, Verdict
from launcher.core.discovery.location import Whereabouts
from launcher.core.model.inventory import GpuDriver, Inventory
from launcher.core.model.text import count


def check_text(fleet: Inventory, found: Survey, differences: Sequence[Difference]) -> str:
    """Return the table of what is not as the file says, and the sum."""
    rows = [(one.whose, one.verdict.value, one.message) for one in differences]
    rows += [(names, "cannot tell", why) for names, why in found.folded()]
    lines = [table(("WHOSE", "IS", "WORDS"), rows), ""] if rows else []
    return clean("\n".join((*lines, _sum(fleet, found, differences))))


def check_json(fleet: Inventory, found: Survey, differences: Sequence[Difference]) -> dict[str, object]:
    """Return the same as JSON: what each node told beside what the file says."""
    return {
        "inventory": fleet.name,
        "nodes": [
            {
                "node": node.name,
                "rack": node.rack,
                "domain": node.domain,
                "tray": node.tray,
                "told": _told(found.told.get(node.name)),
                "cannot_tell": found.silent.get(node.name),
            }
            for node in fleet.nodes
        ],
        "differs": [{"nodes": one.whose, "message": one.message} for one in _of(differences, Verdict.DIFFERS)],
        "left_out": [{"nodes": one.whose, "message": one.message} for one in _of(differences, Verdict.LEFT_OUT)],
    }


def _told(one: Whereabouts | None) -> dict[str, object] | None:
    if one is None:
        return None
    return {
        "chassis": one.chassis,
        "tray": one.tray,
        "domain": one.domain,
        "gpus": one.gpus,
        "accelerator": one.accelerator,
    }


def _of(differences: Sequence[Difference], verdict: Verdict) -> list[Difference]:
    return [one for one in differences if one.verdict is verdict]


def _sum(fleet: Inventory, found: Survey, differences: Sequence[Difference]) -> str:
    differs, left_out = len(_of(differences, Verdict.DIFFERS)), len(_of(differences, Verdict.LEFT_OUT))
    cpu = sum(node.gpu_driver is GpuDriver.NONE for node in fleet.nodes)
    parts = [f"{count(len(found.told), 'node')} told", f"{count(differs, 'difference')}"]
    parts += [f"{left_out} left out"] if left_out else []
    parts += [f"{len(found.silent)} cannot tell"] if found.silent else []
    parts += [f"{cpu} not asked (no GPU driver)"] if cpu else []
    words = ", ".join(parts)
    return words + ("; `nvlaunch inventory discover` writes down what they told" if left_out or differs else "")
