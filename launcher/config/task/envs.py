"""Variables and secrets of a task, from its file and the command line."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from launcher.config.schema.patterns import ENV_NAME, env_name
from launcher.config.schema.variables import Ask
from launcher.config.task.local_paths import PathVariables
from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.nodes import NOWHERE, Mark
from launcher.config.yaml.values import FieldValue, Values

_OURS = "NVLAUNCH_"
_SIMILAR = 0.75  # `STPES` is similar to `STEPS`, `LR` is not to `LORA`


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Values of the command line that replace those of a task file.

    A name, variables (`--env`, `--env-file`), and the names of secrets (`--secret`). `values_later`: nothing is
    started, so a variable or a secret without a value is only warned about.
    """

    name: str | None = None
    envs: Mapping[str, str] = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()
    values_later: bool = False


def check_overrides(overrides: Overrides, out: Diagnostics) -> None:
    """Report names on the command line that are invalid, or given twice.

    A name must not be both a variable and a secret.
    """
    for option, names in (("--env", overrides.envs), ("--secret", overrides.secrets)):
        for name in sorted(names):
            if not re.fullmatch(ENV_NAME, name):
                out.mistake(NOWHERE, f"`{name}` is not {env_name.expected}", env_name.hint, where=option)
            elif name.startswith(_OURS):
                _reserved(name, NOWHERE, out, option)
    for name in sorted(overrides.secrets & set(overrides.envs)):
        what = f"`{name}` is given as a variable and as a secret"
        out.mistake(NOWHERE, what, "pass it with `--secret` only", where="--secret")


def check_unknown_names(owners: Sequence[Values], overrides: Overrides, out: Diagnostics) -> None:
    """Warn of each variable on the command line that is not in the task, but similar to one that is.

    Others are silent: a program may use variables that its task does not name.
    """
    known = {name for owner in owners for name in (*owner.entries("envs"), *owner.entries("secrets"))}
    for name in sorted(overrides.envs.keys() - known):
        if near := difflib.get_close_matches(name, known - overrides.envs.keys(), n=1, cutoff=_SIMILAR):
            out.warn(NOWHERE, f"`{name}` is not in `envs` of the task", f"did you mean `{near[0]}`?", where="--env")


def read_envs(sections: tuple[Values, ...], overrides: Overrides, out: Diagnostics) -> dict[str, str]:
    """Return the variables of a group.

    Later sections override earlier ones, and the command line overrides all. A variable without a value is a mistake
    if the task is started.
    """
    merged: dict[str, FieldValue] = {}
    for values in sections:
        merged.update(values.entries("envs"))
    envs: dict[str, str] = {}
    for name, found in merged.items():
        if name.startswith(_OURS):
            _reserved(name, found.key, out, None)
        elif name in overrides.secrets and found.value is not Ask.ASK:
            what = f"`{name}` is given with `--secret`, and has a value here"
            out.mistake(found.key, what, f"write `{name}: null`, or move it to `secrets`")
        elif isinstance(found.value, str):
            envs[name] = found.value
        elif name in overrides.secrets:
            continue
        elif found.value is Ask.ASK and name not in overrides.envs:
            hint = f"set it with `--env {name}=VALUE`, pass yours with `--env {name}`, or write a value here"
            if overrides.values_later:
                out.warn(found.key, f"variable `{name}` has no value yet", f"at the start, {hint}")
            else:
                out.mistake(found.key, f"variable `{name}` has no value", hint)
    return {**envs, **overrides.envs}


def path_variables(
    owner: Values, secrets: Mapping[str, object], overrides: Overrides, out: Diagnostics
) -> PathVariables:
    """Return the variables that paths of a task may use."""
    envs = read_envs((owner,), overrides, out)
    later = owner.entries("envs").keys() - envs.keys()  # those without a value have been reported
    return PathVariables(envs=envs, later=frozenset(later), secrets=frozenset(secrets))


def read_secrets(owners: Sequence[Values], overrides: Overrides, out: Diagnostics) -> dict[str, str | None]:
    """Return the secrets of the run.

    The value is None if `--secret` gives it, now or later, and else that of the file.
    """
    secrets: dict[str, str | None] = dict.fromkeys(sorted(overrides.secrets))
    for owner in owners:
        for name, value in _secrets(owner, overrides, out).items():
            if secrets.setdefault(name, value) != value:
                mark = owner.entries("secrets")[name].key
                what = f"secret `{name}` has another value in another task of this run"
                out.mistake(mark, what, "use one value for the whole run")
    return secrets


def _secrets(owner: Values, overrides: Overrides, out: Diagnostics) -> dict[str, str | None]:
    secrets: dict[str, str | None] = {}
    for name, found in owner.entries("secrets").items():
        if name in owner.entries("envs"):
            out.mistake(found.key, f"`{name}` is in `envs` too", "remove it from `envs`")
        elif name in overrides.envs:
            what = f"`{name}` is a secret, but `--env` would show its value"
            out.mistake(found.key, what, f"pass it with `--secret {name}`")
        elif name.startswith(_OURS):
            _reserved(name, found.key, out, None)
        elif name in overrides.secrets:
            continue
        elif isinstance(found.value, str):
            secrets[name] = found.value
            hint = f"write `{name}: null`, and pass the value with `--secret {name}`"
            out.warn(found.key, f"the value of secret `{name}` is readable in this file", hint)
        elif found.value is Ask.ASK:
            hint = f"set it in your environment, and pass it with `--secret {name}`"
            if overrides.values_later:
                out.warn(found.key, f"secret `{name}` has no value yet", f"at the start, {hint}")
            else:
                out.mistake(found.key, f"secret `{name}` has no value", hint)
            secrets[name] = None
    return secrets


def _reserved(name: str, mark: Mark, out: Diagnostics, where: str | None) -> None:
    out.mistake(mark, f"`{name}` is reserved: nvlaunch sets it", f"use a name without `{_OURS}`", where=where)
