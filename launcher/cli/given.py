"""What is given beside a task file: `--env`, `--env-file` and `--secret`."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from launcher.errors import Mistake, SpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenValues:
    """Variables, and the values of secrets."""

    envs: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)


def read_given(
    envs: Sequence[str] | None, env_files: Sequence[Path] | None, secrets: Sequence[str] | None
) -> GivenValues:
    """Return what the options give.

    SpecError with every mistake. `--env` overrides `--env-file`.
    """
    mistakes: list[Mistake] = []
    variables = {**_from_files(env_files or (), mistakes), **_from_words(envs or (), mistakes)}
    values = _secrets(secrets or (), mistakes)
    if mistakes:
        raise SpecError(tuple(mistakes))
    return GivenValues(envs=variables, secrets=values)


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
            mistakes.append(_missing(name, "--env", f"write `--env {name or 'NAME'}=VALUE`"))
    mistakes.extend(_misfits(found, "--env"))
    return found


def _missing(name: str, option: str, otherwise: str) -> Mistake:
    if not name:
        return Mistake(what="the name is missing", where=option, hint=otherwise)
    return Mistake(what=f"`{name}` is not in the environment", where=option, hint=f"set it there, or {otherwise}")


def _misfits(found: Mapping[str, str], option: str) -> Iterator[Mistake]:
    """Return a mistake for each value that a rank could not get.

    Values are not shown, as some are secret.
    """
    from launcher.config.schema.variables import MISFIT_HINT, misfit

    for name, value in found.items():
        if why := misfit(value):
            yield Mistake(what=f"the value of `{name}` {why}", where=option, hint=MISFIT_HINT)


def _secrets(words: Sequence[str], mistakes: list[Mistake]) -> dict[str, str]:
    """Return the values of secrets.

    One on the command line is refused, and not repeated: shells and `ps` show it.
    """
    found: dict[str, str] = {}
    for word in words:
        name, given, value = word.partition("=")
        if given and not value.startswith("@"):
            hint = f"write `--secret {name}` to take it from the environment, or `--secret {name}=@FILE`"
            what = f"the value of `{name}` is on the command line, where others can see it"
            mistakes.append(Mistake(what=what, where="--secret", hint=hint))
        elif given:
            _from_file(name, Path(value[1:]), found, mistakes)
        elif name in os.environ:
            found[name] = os.environ[name]
        else:
            mistakes.append(_missing(name, "--secret", f"write `--secret {name or 'NAME'}=@FILE`"))
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
