"""`python -m tests.docs [--rig] [PAGE...]`: make generated parts and pictures anew.

With `--rig` the pictures of the rig, which take root; else those of imaginary racks. `play PAGE` prints its pictures as
JSON.
"""

import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

from tests.docs.generated import refreshed
from tests.docs.markdown import PAGES, ROOT, Block, Page, read_page
from tests.docs.sessions import SESSIONS
from tests.docs.stage import masked, play

PLAY = "play"
RIG = "--rig"


def pictures(page: Page, *, rig: bool) -> list[Block]:
    """The blocks of a page that are pictures: of imaginary racks, or those of the rig."""
    named = [block for block in page.blocks() if "session" in block.marker and _can(block)]
    return [block for block in named if SESSIONS[block.marker["session"]].rig is rig]


def _can(block: Block) -> bool:
    return "needs" not in block.marker or find_spec(block.marker["needs"]) is not None


def played(page: Page, *, rig: bool = False) -> list[list[str]]:
    """The pictures of a page as they come out now, made in a process of their own."""
    if not pictures(page, rig=rig):
        return []
    words = [sys.executable, "-m", "tests.docs", *([RIG] if rig else []), PLAY, str(page.path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{page.name}: {done.stderr}")
    made: list[list[str]] = json.loads(done.stdout)
    return made


def _refresh(path: Path, *, rig: bool) -> bool:
    """Make a page anew; return whether that changed it. A picture that differs in times and ids alone stays."""
    before = path.read_text()
    page = Page(path, tuple(refreshed(read_page(path)).splitlines()))
    lines = list(page.lines)
    for block, new in reversed(list(zip(pictures(page, rig=rig), played(page, rig=rig), strict=True))):
        if masked(new, rig=rig) != masked(block.lines, rig=rig):
            lines[block.at : block.at + len(block.lines)] = new
    after = "\n".join(lines) + "\n"
    if after != before:
        path.write_text(after)
    return after != before


def main(words: list[str]) -> None:
    """Refresh every page, or those that are named."""
    rig = RIG in words
    words = [word for word in words if word != RIG]
    if words[:1] == [PLAY]:
        with tempfile.TemporaryDirectory(prefix="nvdocs.") as folder:
            page = read_page(Path(words[1]))
            print(json.dumps(play(pictures(page, rig=rig), page.files(), Path(folder))))
        return
    paths = [Path(word).resolve() for word in words] or list(PAGES)
    with ThreadPoolExecutor(1 if rig else 2) as pool:
        done = [(path, pool.submit(_refresh, path, rig=rig)) for path in paths]
    for path, one in done:
        if one.exception():
            end = str(one.exception()).strip().splitlines()[-4:]
            print(f"{path.name} stays as it is:", *end, sep="\n  ")
        elif one.result():
            print(f"{path.name} is made anew")
    if any(one.exception() for _, one in done):
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
