"""The pictures of the docs that were taken on racks of hosts come out the same; `make docs-rig` takes them anew."""

import pytest

from tests.docs.__main__ import pictures, played
from tests.docs.markdown import PAGES, ROOT, read_page
from tests.docs.stage import masked

NAMES = [str(path.relative_to(ROOT)) for path in PAGES if pictures(read_page(path), rig=True)]


@pytest.mark.parametrize("name", NAMES)
def test_pictures_are_what_comes_out(name: str) -> None:
    page = read_page(ROOT / name)
    for block, made in zip(pictures(page, rig=True), played(page, rig=True), strict=True):
        assert masked(made, rig=True) == masked(block.lines, rig=True), "run `make docs-rig`, and read what it changed"
