"""Variables and secrets of a task: the file's, those of its groups, and those given on the command line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from launcher.config.schema.patterns import ENV_NAME, env_name
from launcher.config.schema.values import Ask
from launcher.config.yaml.nodes import NOWHERE, Mark
from launcher.config.yaml.reading import Found, Reading, Values

_OURS = "NVLAUNCH_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the command line adds to a task file: a name, variables (`--env`, `--env-file`), names of `--secret`."""

    name: str | None = None
    envs: Mapping[str, str] = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()


def check_given(given: Given, out: Reading) -> None:
    """Note names on the command line that cannot be variables, and those that are variable and secret at once."""
    for option, names in (("--env", given.envs), ("--secret", given.secrets)):
        for name in sorted(names):
            if not re.fullmatch(ENV_NAME, name):
                out.mistake(NOWHERE, f"`{name}` cannot be {env_name.word}", env_name.hint, where=option)
            elif name.startswith(_OURS):
                _reserved(name, NOWHERE, out, option)
    for name in sorted(given.secrets & set(given.envs)):
        out.mistake(NOWHERE, f"`{name}` is given as a variable as well", "keep `--secret` alone", where="--secret")


def read_envs(sections: tuple[Values, ...], given: Given, out: Reading) -> dict[str, str]:
    """Return the variables of a group: the later section wins, and the command line over all.

    A null that nobody gives is a mistake that names it.
    """
    merged: dict[str, Found] = {}
    for values in sections:
        merged.update(values.entries("envs"))
    envs: dict[str, str] = {}
    for name, found in merged.items():
        if name.startswith(_OURS):
            _reserved(name, found.key, out, None)
        elif name in given.secrets and found.value is not Ask.ASK:
            what = f"`{name}` is given by `--secret`, and has a value here"
            out.mistake(found.key, what, f"write `{name}: null`, or move it to `secrets`")
        elif isinstance(found.value, str):
            envs[name] = found.value
        elif name in given.secrets:
            continue
        elif found.value is Ask.ASK and name not in given.envs:
            hint = f"give it with `--env {name}` (from your environment) or `--env {name}=VALUE`, or write its value"
            out.mistake(found.key, f"the variable `{name}` has no value", hint)
    return {**envs, **given.envs}


def read_secrets(owners: Sequence[Values], given: Given, out: Reading) -> dict[str, str | None]:
    """Return each secret of the run; its value is None where `--secret` gives it, as it should."""
    secrets: dict[str, str | None] = dict.fromkeys(sorted(given.secrets))
    for owner in owners:
        for name, value in _secrets(owner, given, out).items():
            if secrets.setdefault(name, value) != value:
                mark = owner.entries("secrets")[name].key
                out.mistake(mark, f"another task of this run has another value of `{name}`", "a run has one: keep one")
    return secrets


def _secrets(owner: Values, given: Given, out: Reading) -> dict[str, str]:
    secrets: dict[str, str] = {}
    for name, found in owner.entries("secrets").items():
        if name in owner.entries("envs"):
            out.mistake(found.key, f"`{name}` is under `envs` as well", "keep it under `secrets` alone")
        elif name in given.envs:
            what = f"`{name}` is a secret, and `--env` would show its value"
            out.mistake(found.key, what, f"give it with `--secret {name}`")
        elif name.startswith(_OURS):
            _reserved(name, found.key, out, None)
        elif name in given.secrets:
            continue
        elif isinstance(found.value, str):
            secrets[name] = found.value
            hint = f"write `{name}: null`, and give it with `--secret {name}`"
            out.warn(found.key, f"the value of the secret `{name}` stands in the file, for all who can read it", hint)
        elif found.value is Ask.ASK:
            hint = f"give it with `--secret {name}`, which takes it from the environment"
            out.mistake(found.key, f"the secret `{name}` has no value", hint)
    return secrets


def _reserved(name: str, mark: Mark, out: Reading, where: str | None) -> None:
    out.mistake(mark, f"`{name}` is set by nvlaunch itself", f"choose a name without `{_OURS}`", where=where)
