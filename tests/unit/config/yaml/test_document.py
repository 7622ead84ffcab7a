"""Documents of a YAML text."""

import pytest

from launcher.config.yaml import document
from launcher.config.yaml.document import parse_documents


def test_both_parsers_read_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "envs:\n" + "".join(f"  A{n}: [x{n}, *a]\n" if n else "  A0: &a é\n" for n in range(1500))
    short = parse_documents(text, "task.yaml", what="task")
    monkeypatch.setattr(document, "LONG", 10**9)
    assert parse_documents(text, "task.yaml", what="task") == short
