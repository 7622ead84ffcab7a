"""Mutated task files are refused with positions in the file, or read to a task that can be stored and loaded."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.config.schema.fields import Section
from launcher.config.task.fields import HEADER, MEMBER, TASK
from launcher.config.task.read import ParsedTask, read_task
from launcher.core.model.task import Task
from launcher.errors import Mistake, SpecError
from launcher.store.codec import dump, load
from tests.effort import drawn

ROOT = Path(__file__).parents[3]
FILES = sorted(
    [
        *(ROOT / "examples").glob("*.y*ml"),
        *(ROOT / "templates").glob("*.yaml"),
        *(ROOT / "tests" / "corpus" / "config" / "good").glob("*.yaml"),
        *(ROOT / "tests" / "corpus" / "config" / "bad").glob("*.yaml"),
    ]
)
TEXTS = [text for file in FILES if len(text := file.read_text(errors="replace")) < 5000]


def keys_of(section: Section) -> set[str]:
    inner = [keys_of(row.type) for row in section.fields.values() if isinstance(row.type, Section)]
    return set(section.fields).union(*inner)


KEYS = sorted(keys_of(TASK) | keys_of(HEADER) | keys_of(MEMBER))
ODD = [
    "---",
    "{}",
    "[]",
    "[~]",
    "~",
    "null",
    "-1",
    "1e400",
    "&a",
    "*a",
    "<<: *a",
    "? x",
    "!!int x",
    "{a: {b: [c]}}",
    "'",
]
VALUES = [
    *ODD,
    "GB300:4",
    "{GB300: 4, GB200: 4}",
    "[GB300:4, H100:8]",
    "parallel",
    "${HOME}",
    "s3://x",
    "\ud7ff",
    "0x10",
]


@st.composite
def broken(draw: st.DrawFn) -> str:
    """A file with up to six changed lines."""
    lines = draw(st.sampled_from(TEXTS)).splitlines()
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(0, len(lines) - 1)))
        line = lines[at] if lines else ""
        indent = line[: len(line) - len(line.lstrip())]
        key = line.split(":")[0]
        other = draw(st.sampled_from(KEYS))
        value = draw(st.sampled_from(VALUES))
        changed = {
            "delete": [],
            "repeat": [line, line],
            "indent": ["  " + line],
            "outdent": [line[2:]],
            "value": [f"{key}: {value}"],
            "key": [f"{indent}{other}:{line.partition(':')[2]}"],
            "insert": [f"{indent}{other}: {value}", line],
            "document": ["---", line],
            "cut": [line[: draw(st.integers(0, len(line)))]],
        }
        lines[at : at + 1] = changed[draw(st.sampled_from(sorted(changed)))]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mutations") / "task.yaml"


def read(path: Path) -> ParsedTask | tuple[Mistake, ...]:
    try:
        return read_task(path)
    except SpecError as error:
        return error.mistakes


@drawn(150)
@given(broken())
def test_mutated_file_is_refused_with_positions_or_read(path: Path, text: str) -> None:
    path.write_text(text)
    lines = len(re.findall("[\r\n\x85\u2028\u2029]", text)) + 2
    parsed = read(path)
    if not isinstance(parsed, ParsedTask):
        assert parsed
        assert all(0 <= mistake.line <= lines and mistake.what for mistake in parsed)
        return
    assert all(0 < warning.line <= lines for warning in parsed.warnings)
    assert load(Task, dump(Task, parsed.task)) == parsed.task
    assert all(forms[0] in parsed.task.groups for forms in parsed.kinds.values())
