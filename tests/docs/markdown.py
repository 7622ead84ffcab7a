"""Pages as the checks see them: fenced blocks with their marker, headings, links and code spans, each with its line."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
)

_FENCE = re.compile(r"^( *)```(\w*)\s*$")
_MARKER = re.compile(r"^ *<!-- (.*?) -->$")
_HEADING = re.compile(r"^(#{1,6}) (.+)$")
_LINK = re.compile(r"(?<!\!)\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")
_SPAN = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its lines, where its first line stands, and the marker in front of it.

    A marker is a comment on the line before, as in `<!-- session: fleet; until: demo running -->`.
    """

    language: str
    lines: tuple[str, ...]
    at: int  # index of the first line inside the fence
    marker: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The lines, as a file would have them."""
        return "".join(f"{line}\n" for line in self.lines)


@dataclass(frozen=True)
class Page:
    """One page of the documentation."""

    path: Path
    lines: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its path in the repository."""
        return str(self.path.relative_to(ROOT))

    def blocks(self) -> Iterator[Block]:
        """Every fenced block, in order."""
        at = 0
        while at < len(self.lines):
            if opened := _FENCE.match(self.lines[at]):
                end = next(i for i in range(at + 1, len(self.lines)) if self.lines[i].strip() == "```")
                indent = len(opened[1])
                body = tuple(line[indent:] for line in self.lines[at + 1 : end])
                yield Block(opened[2], body, at + 1, read_marker(self.lines[at - 1]) if at else {})
                at = end
            at += 1

    def files(self) -> dict[str, str]:
        """The files that a page shows, `<!-- file: NAME -->` before each, for its pictures."""
        return {block.marker["file"]: block.text for block in self.blocks() if "file" in block.marker}

    def prose(self) -> Iterator[tuple[int, str]]:
        """Each line that is in no fenced block, with its number from 1."""
        inside = False
        for number, line in enumerate(self.lines, start=1):
            if _FENCE.match(line) or (inside and line.strip() == "```"):
                inside = not inside
            elif not inside:
                yield number, line

    def anchors(self) -> set[str]:
        """What a link to a heading of this page may say, as GitHub makes it."""
        found: dict[str, int] = {}
        made = set()
        for _, line in self.prose():
            if heading := _HEADING.match(line):
                slug = slug_of(heading[2])
                count = found.get(slug, 0)
                found[slug] = count + 1
                made.add(f"{slug}-{count}" if count else slug)
        return made

    def links(self) -> Iterator[tuple[int, str]]:
        """Each link with its line."""
        for number, line in self.prose():
            for found in _LINK.finditer(_SPAN.sub("`x`", line)):
                yield number, found[1]

    def spans(self) -> Iterator[tuple[int, str]]:
        """Each piece of code in running text, with its line."""
        for number, line in self.prose():
            for found in _SPAN.finditer(line):
                yield number, found[1]


def read_marker(line: str) -> dict[str, str]:
    """What a comment says, `key: value` each between semicolons; nothing of a line that is no comment."""
    found = _MARKER.match(line)
    parts = (part.partition(":") for part in found[1].split(";")) if found else ()
    return {key.strip(): value.strip() for key, _, value in parts}


def slug_of(heading: str) -> str:
    """The anchor of a heading: lower case, without punctuation, dashes for spaces."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def read_page(path: Path) -> Page:
    """A page as it is on disk."""
    return Page(path, tuple(path.read_text().splitlines()))
