"""README and docs are true: links lead somewhere, commands parse, snippets are good, pictures are what comes out.

`make docs` makes everything anew that is made of the program.
"""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from launcher.cli.main import app, main
from launcher.core.model.run import RunState
from launcher.errors import ExitCode
from tests.docs.__main__ import pictures, played
from tests.docs.generated import refreshed
from tests.docs.markdown import PAGES, ROOT, Page, read_page
from tests.docs.stage import masked

STALE = "run `make docs`, and read what it changed"
NAMES = [str(path.relative_to(ROOT)) for path in PAGES]
ROOT_COMMAND: Any = typer.main.get_command(app)
BY_HAND = [name for name in NAMES if name != "CHANGELOG.md"]  # what was once true may stand there
COMPLETE = {
    "task": {"run": "run: echo\n", "resources": "resources: {accelerators: GB300:4}\n"},
    "inventory": {"racks": "racks: {r01: {nodes: r01-n1}}\n"},
}
"""What a fragment may leave out, by its kind."""


@cache
def page(name: str) -> Page:
    return read_page(ROOT / name)


@pytest.mark.parametrize("name", NAMES)
def test_generated_parts_are_fresh(name: str) -> None:
    assert refreshed(page(name)) == (ROOT / name).read_text(), STALE


@pytest.mark.parametrize("name", [name for name in NAMES if pictures(page(name), rig=False)])
def test_pictures_are_what_comes_out(name: str) -> None:
    for block, made in zip(pictures(page(name), rig=False), played(page(name)), strict=True):
        assert masked(made) == masked(block.lines), STALE


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    for line, link in page(name).links():
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        assert target.exists(), f"{name}:{line}: there is no `{path}`"
        if anchor:
            assert anchor in page(str(target.resolve().relative_to(ROOT))).anchors(), f"{name}:{line}: `#{anchor}`"


def typed(name: str) -> Iterator[tuple[str, list[str]]]:
    """Every command line of ours in the blocks of a page, and its words."""
    for block in page(name).blocks():
        if block.language not in ("sh", "console"):
            continue
        for line in block.lines:
            if block.language == "console" and not line.startswith("$ "):
                continue
            yield from ((line, words) for words in _commands(line.removeprefix("$ ")))


def _commands(line: str) -> Iterator[list[str]]:
    words: list[str] = []
    for word in (*shlex.split(line, comments=True), ";"):
        if word not in ("|", "&&", "||", ";", ">", "2>"):
            words.append(word)
            continue
        if words[:1] == ["nvlaunch"]:
            yield words[1:]
        words = []


@pytest.mark.parametrize("name", BY_HAND)
def test_commands_of_blocks_parse(name: str) -> None:
    for line, words in typed(name):
        command, rest = found(words, f"{name}: `{line}`")
        if command is ROOT_COMMAND:
            assert set(rest) <= options(command), f"{name}: `{line}`"
            continue
        try:
            command.make_context(command.name, rest)
        except Exception as error:  # noqa: BLE001  whatever typer says of it
            pytest.fail(f"{name}: `{line}`: {error!r}")


@pytest.mark.parametrize("name", BY_HAND)
def test_commands_in_running_text_are_there(name: str) -> None:
    for number, span in page(name).spans():
        for words in _commands(span.replace("'", '"') if span.count("'") % 2 else span):
            command, rest = found(words, f"{name}:{number}: `{span}`")
            ours = rest[: rest.index("--")] if "--" in rest else rest
            asked = {word.partition("=")[0] for word in ours if word.startswith("-") and word != "-"}
            assert asked <= options(command), f"{name}:{number}: `{span}`"


def found(words: list[str], where: str) -> tuple[Any, list[str]]:
    """The command that words name, and the words that are left for it."""
    command, rest = ROOT_COMMAND, words
    while getattr(command, "commands", None) and rest and not rest[0].startswith("-") and rest[0] != "COMMAND":
        assert rest[0] in command.commands, where
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


def options(command: Any) -> set[str]:
    """The options that a command has."""
    return {"-h", "--help", *(one for param in command.params for one in (*param.opts, *param.secondary_opts))}


@pytest.mark.parametrize("name", BY_HAND)
def test_snippets_of_yaml_are_good(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NVLAUNCH_HOME", str(tmp_path / "home"))
    for block in page(name).blocks():
        if block.language != "yaml" or block.marker.get("yaml") == "not checked":
            continue
        plain = yaml.safe_load(block.text)
        missing = COMPLETE.get(block.marker.get("fragment", ""), {})
        either = {"run": ("run", "driver", "groups"), "resources": ("resources", "groups")}
        more = "".join(text for key, text in missing.items() if not set(either.get(key, (key,))) & set(plain))
        file = tmp_path / "snippet.yaml"
        file.write_text(block.text + more)
        asked = [f"--env={key}=1" for key, value in (plain.get("envs") or {}).items() if value is None]
        for key in plain.get("secrets") or {}:
            monkeypatch.setenv(key, "hidden")
            asked.append(f"--secret={key}")
        code = main(["validate", str(file), *asked])
        assert code == 0, f"{name}:{block.at}: {capfd.readouterr().err}"


@cache
def program() -> str:
    """All that the program is made of, as one text."""
    files = [
        *(ROOT / "launcher").rglob("*.py"),
        *(path for path in (ROOT / "templates").rglob("*") if path.is_file()),
        *(ROOT / "examples").iterdir(),
    ]
    return "\n".join(file.read_text() for file in files)


@pytest.mark.parametrize("name", BY_HAND)
def test_variables_and_metrics_are_there(name: str) -> None:
    for number, line in enumerate(page(name).lines, start=1):
        for word in re.findall(r"\b(?:NVLAUNCH|SKYPILOT)_[A-Z_]*[A-Z]\b|\bnvlaunch_[a-z_]+\b", line):
            assert word.removesuffix("_total") in program(), f"{name}:{number}: there is no `{word}`"


@pytest.mark.parametrize("name", BY_HAND)
def test_modules_are_there(name: str) -> None:
    places = (ROOT, ROOT / "launcher", ROOT / "launcher" / "core")
    for number, span in page(name).spans():
        if re.fullmatch(r"[a-z_]+(/[a-z_]+)+(\.py|/)?", span) and not span.endswith(".yaml"):
            found = any((place / path).exists() for place in places for path in (span, f"{span}.py"))
            assert found, f"{name}:{number}: there is no `{span}`"


def test_what_a_rank_sees_is_documented() -> None:
    sources = "\n".join(file.read_text() for file in (ROOT / "launcher" / "setup").glob("*.py"))
    told = (ROOT / "docs" / "tasks.md").read_text() + (ROOT / "docs" / "checks.md").read_text()
    assert [name for name in set(re.findall(r'"((?:NVLAUNCH|SKYPILOT)_[A-Z_]+)"', sources)) if name not in told] == []


@pytest.mark.parametrize("name", ["docs/recovery.md", "docs/questions.md"])
def test_times_of_recovery_are_those_that_tests_hold(name: str) -> None:
    found = re.findall(r"(\d+) s <!-- (\w+) -->", (ROOT / name).read_text())
    assert found
    for seconds, scenario in found:
        told = yaml.safe_load((ROOT / "tests" / "fake" / "scenarios" / f"{scenario}.yaml").read_text())
        assert int(seconds) == told["expect"]["within"], scenario


def test_every_state_of_a_run_is_explained() -> None:
    told = (ROOT / "docs" / "operating.md").read_text()
    assert [state.value for state in RunState if f"`{state.value}`" not in told] == []


def test_every_exit_code_is_listed() -> None:
    told = (ROOT / "docs" / "commands.md").read_text()
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", told, re.MULTILINE)}
    assert listed == {code.value for code in ExitCode}


def test_a_newcomers_questions_have_answers() -> None:
    """An answer is a command to type, a key to write, or a link."""
    text = (ROOT / "docs" / "questions.md").read_text().partition("\n## Words")[0]
    asked = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| question")]
    assert len(asked) >= 40
    assert [row for row in asked if "`" not in row and "](" not in row] == []


def test_the_readme_is_short() -> None:
    assert len(page("README.md").lines) <= 150
