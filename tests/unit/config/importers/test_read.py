"""Files of `tests/corpus/inventories`, each with the imported inventory and warnings, or the mistakes, in `.said`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.config.importers.read import import_file
from launcher.config.importers.write import inventory_text
from launcher.config.inventory.read import parse_inventory
from launcher.errors import SpecError

CORPUS = Path(__file__).parents[3] / "corpus" / "inventories"
FILES = sorted(path for path in CORPUS.iterdir() if path.suffix != ".said")


def said(path: Path) -> Iterator[str]:
    try:
        found = import_file(path)
    except SpecError as error:
        yield "refused"
        yield from map(str, error.mistakes)
        return
    text, more = inventory_text(found)
    read = parse_inventory(text, Path("inventory.yaml"))
    known = len(read.nodes) - len(found.rackless)
    yield f"{found.file_format.value}: {len(read.nodes)} nodes, the rack of {known} is known"
    yield from map(str, (*found.warnings, *more))
    yield text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_is_imported_as_expected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    expected = path.with_name(f"{path.name}.said").read_text()
    assert "\n".join(said(Path(path.name))).rstrip("\n") == expected.rstrip("\n")
