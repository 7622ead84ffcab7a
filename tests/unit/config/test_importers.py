"""Files of `tests/corpus/inventories`: what each becomes, with all that is said of it, or why it is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.config.importers.read import read_foreign
from launcher.config.importers.write import inventory_text
from launcher.config.inventory.read import parse_inventory
from launcher.errors import SpecError

CORPUS = Path(__file__).parents[2] / "corpus" / "inventories"
FILES = sorted(path for path in CORPUS.iterdir() if path.suffix != ".said")


def said(path: Path) -> Iterator[str]:
    try:
        found = read_foreign(path)
    except SpecError as error:
        yield "refused"
        yield from map(str, error.mistakes)
        return
    text, more = inventory_text(found)
    read = parse_inventory(text, Path("inventory.yaml"))
    known = len(read.nodes) - len(found.rackless)
    yield f"{found.kind.value}: {len(read.nodes)} nodes, the rack of {known} is known"
    yield from map(str, (*found.remarks, *more))
    yield text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_foreign_inventory_becomes_this(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    expected = path.with_name(f"{path.name}.said").read_text()
    assert "\n".join(said(Path(path.name))).rstrip("\n") == expected.rstrip("\n")
