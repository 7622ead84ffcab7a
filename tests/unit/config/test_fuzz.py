"""Any file is read, or refused with a SpecError whose positions are in the file."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from launcher.config.inventory.fields import INVENTORY
from launcher.config.inventory.read import read_inventory
from launcher.config.schema.fields import Section
from launcher.config.task.env_file import read_env_file
from launcher.config.task.fields import TASK
from launcher.config.task.read import read_task
from launcher.config.yaml import document
from launcher.errors import Mistake, SpecError
from tests.effort import drawn


def keys_of(section: Section) -> set[str]:
    inner = [keys_of(row.type) for row in section.fields.values() if isinstance(row.type, Section)]
    return set(section.fields).union(*inner)


KEYS = sorted(keys_of(TASK) | keys_of(INVENTORY) | {"nodes", "r1", "main", "block"})
WORDS = [
    "GB300:4",
    "rack",
    "any",
    "n[1-3]",
    "n[1-",
    "12:30:00",
    "0x_",
    "1e3",
    "010",
    "~",
    "<<",
    "null",
    "yes",
    "inf",
    "-x",
]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(0, 20),
    st.floats(),
    st.dates(),
    st.sampled_from(WORDS),
    st.text(max_size=8),
    st.binary(max_size=4),
)
keys = st.one_of(st.sampled_from(KEYS), st.text(max_size=4), scalars)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=5)),
    max_leaves=25,
)
known = st.dictionaries(st.sampled_from(KEYS), values, max_size=8)
FUZZ = drawn(100)


@pytest.fixture(scope="module", params=[document.LONG, 0], ids=["pure parser", "libyaml"], autouse=True)
def parser(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every file is read by the pure parser, and again by the one for long files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document, "LONG", request.param)
        yield


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "task.yaml"


def read(path: Path) -> None:
    lines = len(re.findall(rb"[\r\n]|\xc2\x85|\xe2\x80[\xa8\xa9]", path.read_bytes())) + 2
    for reader in (read_task, read_inventory, read_env_file):
        assert all(0 <= mistake.line <= lines for mistake in mistakes_of(reader, path))


def mistakes_of(reader: Callable[[Path], object], path: Path) -> tuple[Mistake, ...]:
    try:
        reader(path)
    except SpecError as error:
        return error.mistakes
    return ()


@FUZZ
@given(known)
def test_any_values_under_known_keys(path: Path, value: object) -> None:
    path.write_text(yaml.safe_dump(value, allow_unicode=True))
    read(path)


@FUZZ
@given(st.text(alphabet="ab:-[]{}&*!|>'\"%@`#?,<~ \n\t\\0159.xé\x85\u2028", max_size=60))
def test_any_text(path: Path, text: str) -> None:
    path.write_text(text)
    read(path)


@FUZZ
@given(st.binary(max_size=60))
def test_any_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    read(path)
