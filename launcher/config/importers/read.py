"""Import the inventory of another program, or report all mistakes at once."""

from dataclasses import dataclass
from pathlib import Path

from launcher.config.importers.collector import HostCollector
from launcher.config.importers.detect import detect_format
from launcher.config.importers.formats import FORMATS, InventoryFormat
from launcher.config.importers.imported import ImportedHost
from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.nodes import Mark
from launcher.config.yaml.text_file import MAX_BYTES as TEXT_BYTES
from launcher.config.yaml.text_file import read_text, refuse
from launcher.errors import Mistake

MAX_BYTES = 64_000_000
"""`kubectl get nodes -o json` prints about 20 KB for each node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedInventory:
    """The hosts of a file, the levels above their racks, and warnings.

    Levels are ordered from coarse to fine.
    """

    file_format: InventoryFormat
    source: str
    hosts: tuple[ImportedHost, ...]
    levels: tuple[str, ...]
    warnings: tuple[Mistake, ...]

    @property
    def title(self) -> str:
        """Return the name of the format for messages."""
        return FORMATS[self.file_format].title

    @property
    def rackless(self) -> tuple[str, ...]:
        """Return the hosts whose rack is unknown."""
        return tuple(host.name for host in self.hosts if host.rack is None)


def import_file(path: Path, file_format: InventoryFormat | None = None) -> ImportedInventory:
    """Return the inventory of a file, or of stdin for `-`.

    SpecError with every mistake, or for an unknown format.
    """
    stdin = str(path) == "-"
    text = read_text(Path("/dev/stdin") if stdin else path, what="list of machines", limit=MAX_BYTES)
    where = "stdin" if stdin else str(path)
    if len(text) > TEXT_BYTES and not text.lstrip().startswith("{"):
        what = f"the file is larger than {TEXT_BYTES // 1_000_000} MB: this is not a list of machines"
        raise refuse(where, what, hint="a larger list of Kubernetes nodes must be JSON: `kubectl get nodes -o json`")
    return import_text(text, where, file_format)


def import_text(text: str, where: str, file_format: InventoryFormat | None = None) -> ImportedInventory:
    """Return the inventory of a text; `where` is its name in messages."""
    chosen = file_format or detect_format(text, where)
    out = Diagnostics(where)
    collector = HostCollector(out)
    FORMATS[chosen].read(text, collector)
    if not collector.hosts and not out.has_mistakes():
        reasons = "; ".join(f"line {one.line}: {one.what}" for one in out.warnings()[:3])
        what = "no machine of the file can be used" if reasons else f"{FORMATS[chosen].title} without any machine"
        out.mistake(Mark(), what, reasons or "name a file that lists at least one machine")
    collector.finish()
    return ImportedInventory(
        file_format=chosen, source=where, hosts=collector.hosts, levels=collector.levels, warnings=out.warnings()
    )
