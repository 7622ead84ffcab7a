"""`validate`: all mistakes in task and inventory files."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import As, Env, EnvFile, Output, Secret
from launcher.cli.output.console import clean, say, show
from launcher.cli.output.errors import warning_text
from launcher.cli.plain import PlainCommand
from launcher.errors import Mistake, SpecError

if TYPE_CHECKING:
    from launcher.config.task.envs import Overrides

# Keys that only an inventory has, at the left edge: the text inside a task's scripts is always indented.
_INVENTORY = re.compile(r"^[\"']?(?:racks|levels|transport|defaults)[\"']?[ \t]*:", re.MULTILINE)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(validate)


def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Task and inventory files; `-` is stdin.")],
    env: Env = None,
    env_file: EnvFile = None,
    secret: Secret = None,
    output: As = Output.TEXT,
) -> None:
    """Check task and inventory files.

    Reports all mistakes at once; exits with 0 or 2.

    \b
    Example:
      nvlaunch validate task.yaml inventory.yaml
      nvlaunch validate task.yaml --env STEPS=10 --secret HF_TOKEN -o json
      sed s/8B/70B/ task.yaml | nvlaunch validate -
    """
    from launcher.cli.given import read_given
    from launcher.config.task.envs import Overrides
    from launcher.store.plain import plain

    values = read_given(env, env_file, secret)
    given = Overrides(envs=values.envs, secrets=frozenset(values.secrets), values_later=True)
    answers = [_check(file, given) for file in files]
    if output is Output.JSON:
        show(json.dumps(plain(answers), indent=2))
    for answer in answers:
        _tell(answer)
    mistakes = tuple(mistake for answer in answers for mistake in answer.mistakes)
    if mistakes:
        raise SpecError(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    file: str
    kind: str
    valid: bool = True
    mistakes: tuple[Mistake, ...] = ()
    warnings: tuple[Mistake, ...] = ()


def _check(file: Path, given: "Overrides") -> _Answer:
    from launcher.config.inventory.read import parse_inventory
    from launcher.config.task.read import parse_tasks
    from launcher.config.yaml.text_file import STDIN, STDIN_NAME, read_text

    kind = "task"
    try:
        text = read_text(file, what="task or inventory file")  # once: a pipe cannot be read twice
        file = STDIN_NAME if file == STDIN else file
        if _INVENTORY.search(text):
            kind = "inventory"
            parse_inventory(text, file)
            return _Answer(file=str(file), kind=kind)
        return _Answer(file=str(file), kind=kind, warnings=parse_tasks(text, file, overrides=given)[0].warnings)
    except SpecError as error:
        return _Answer(file=str(file), kind=kind, valid=False, mistakes=error.mistakes, warnings=error.warnings)


def _tell(answer: _Answer) -> None:
    for warning in answer.warnings:
        say(warning_text(warning))
    if not answer.mistakes:
        say(clean(f"{answer.file}: valid {answer.kind} file"))
