"""What a command line asks for: a task, the machines for it, and the values of its secrets."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.cli.options import home
from launcher.cli.output.console import say, warn
from launcher.cli.output.errors import mistake_text
from launcher.cli.output.plan import fleet_text
from launcher.core.model.inventory import Inventory
from launcher.core.model.task import Task
from launcher.errors import LaunchError, Mistake, SpecError

if TYPE_CHECKING:
    from launcher.config.task.envs import Overrides


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What was typed about a task: `--name`, `--env`, `--env-file` and `--secret`."""

    name: str | None = None
    envs: Sequence[str] = ()
    env_files: Sequence[Path] = ()
    secrets: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A task that was read and an inventory that has its levels. Values of secrets are never shown."""

    task: Task
    fleet: Inventory
    source: str
    secrets: Mapping[str, str] = field(repr=False)


def read_request(file: Path, inventory: str | None, words: Words) -> Request:
    """Return what is asked for, and say which inventory is used; SpecError with every mistake of the task."""
    from launcher.cli.choice import choose
    from launcher.config.inventory.read import find_inventory
    from launcher.config.task.file_mounts import check_mounts
    from launcher.config.task.levels import check_levels
    from launcher.config.task.read import read_task
    from launcher.config.task.unknown_names import unknown_names

    given, secrets = read_words(words)
    parsed = read_task(file, overrides=given)
    for warning in parsed.warnings:
        warn(mistake_text(warning))
    fleet = find_inventory(inventory, os.environ, home())
    say(fleet_text(fleet))
    check_levels(parsed.task, fleet, where=parsed.where, marks=parsed.marks)
    check_mounts(parsed.task, fleet, where=parsed.where, marks=parsed.marks)
    for warning in unknown_names(parsed.task, fleet, where=parsed.where, marks=parsed.marks):
        warn(mistake_text(warning))
    task = choose(parsed, fleet)
    kept = {**parsed.secrets, **secrets}
    return Request(task=task, fleet=fleet, source=str(file.absolute()), secrets=kept)


def read_words(words: Words) -> tuple["Overrides", dict[str, str]]:
    """Return what is given to a task, and the values of its secrets; SpecError with all that are not there."""
    from launcher.config.task.envs import Overrides

    mistakes: list[Mistake] = []
    envs = {**_from_files(words.env_files, mistakes), **_from_words(words.envs, mistakes)}
    secrets = _secrets(words.secrets, mistakes)
    if mistakes:
        raise SpecError(tuple(mistakes))
    return Overrides(name=words.name, envs=envs, secrets=frozenset(secrets)), secrets


def _from_files(files: Sequence[Path], mistakes: list[Mistake]) -> dict[str, str]:
    from launcher.config.task.env_file import read_env_file

    def variables(file: Path) -> dict[str, str]:
        try:
            found = read_env_file(file)
        except SpecError as error:
            mistakes.extend(error.mistakes)
            return {}
        mistakes.extend(_misfits(found, str(file)))
        return found

    return {name: value for file in files for name, value in variables(file).items()}


def _from_words(words: Sequence[str], mistakes: list[Mistake]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, given, value = word.partition("=")
        if given:
            found[name] = value
        elif name in os.environ:
            found[name] = os.environ[name]
        else:
            mistakes.append(_not_there(name, "--env", f"write `--env {name or 'NAME'}=VALUE`"))
    mistakes.extend(_misfits(found, "--env"))
    return found


def _not_there(name: str, option: str, otherwise: str) -> Mistake:
    if not name:
        return Mistake(what="a name is missing", where=option, hint=otherwise)
    return Mistake(what=f"`{name}` is not in the environment", where=option, hint=f"set it there, or {otherwise}")


def _misfits(found: Mapping[str, str], option: str) -> Iterator[Mistake]:
    """What no rank could be given; the values are not shown, for some are secret."""
    from launcher.config.schema.variables import MISFIT_HINT, misfit

    for name, value in found.items():
        if why := misfit(value):
            yield Mistake(what=f"the value of `{name}` {why}", where=option, hint=MISFIT_HINT)


def _secrets(words: Sequence[str], mistakes: list[Mistake]) -> dict[str, str]:
    """A value that was typed is refused, and not repeated: it is in the shell's history and the list of processes."""
    found: dict[str, str] = {}
    for word in words:
        name, given, value = word.partition("=")
        if given and not value.startswith("@"):
            hint = f"write `--secret {name}` to take it from the environment, or `--secret {name}=@FILE`"
            mistakes.append(Mistake(what=f"the value of `{name}` was typed", where="--secret", hint=hint))
        elif given:
            _from_file(name, Path(value[1:]), found, mistakes)
        elif name in os.environ:
            found[name] = os.environ[name]
        else:
            mistakes.append(_not_there(name, "--secret", f"write `--secret {name or 'NAME'}=@FILE`"))
    mistakes.extend(_misfits(found, "--secret"))
    return found


def _from_file(name: str, file: Path, found: dict[str, str], mistakes: list[Mistake]) -> None:
    from launcher.config.yaml.text_file import read_bytes

    try:
        found[name] = read_bytes(file, what="secret").decode("utf-8").rstrip("\n")
    except SpecError as error:
        mistakes.extend(replace(one, what=f"{one.what} (for `--secret {name}`)") for one in error.mistakes)
    except UnicodeDecodeError:
        mistakes.append(Mistake(what=f"not UTF-8 text (for `--secret {name}`)", where=str(file)))


def keep_secrets(file: Path, secrets: Mapping[str, str]) -> None:
    """Write the secrets of a run where its controller finds them: one file that its owner alone can read."""
    import json

    if not secrets:
        return
    draft = file.with_suffix(".new")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
            json.dump(dict(secrets), out)
        draft.replace(file)
    except OSError as error:
        raise LaunchError(f"cannot keep secrets in `{file}`: {(error.strerror or str(error)).lower()}") from error
