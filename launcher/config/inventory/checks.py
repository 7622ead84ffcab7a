"""The checks of nodes: `checks` of an inventory."""

from pathlib import Path

from launcher.config.schema.fields import Field, section
from launcher.config.schema.patterns import path as path_type
from launcher.config.schema.scalars import Choice, Duration, Number, Text
from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.text_file import read_text
from launcher.config.yaml.values import Values
from launcher.core.model.checks import CheckPolicy, CheckScope, CheckStage, NodeCheck
from launcher.errors import SpecError

MAX_SCRIPT = 64_000
"""The largest script (bytes): it is stored with each run, and sent to each node."""

LONGEST_S = 6 * 3600.0
"""The longest time limit (s); `dcgmi diag -r 4`, the longest of NVIDIA's levels, takes up to two hours."""

_HIGHER, _LOWER = "higher", "lower"
_DEFAULT = NodeCheck(script="")

CHECK = section(
    Field(
        name="run",
        doc="The command, for `sh`, or a program that begins with `#!`. It exits with 0 for a good node and 1 for "
        "a bad one, any other status says nothing. A number in its last line is kept and compared.",
        type=Text(expected="a command", pattern=r"[^\x00]*\S[^\x00]*"),
    ),
    Field(name="script", doc="A file with the program, instead of `run`; relative to the inventory.", type=path_type),
    Field(
        name="scope",
        doc="What one execution covers: each `node` alone, a `pair` in one NVLink domain, or a whole `slice` at once.",
        type=Choice(choices=tuple(one.value for one in CheckScope)),
        default=_DEFAULT.on.value,
    ),
    Field(
        name="time_limit",
        doc="How long it may take; after that it is killed, and says nothing.",
        type=Duration(above=True),
        default="2m",
    ),
    Field(
        name="slower_by",
        doc="A number that is worse than usual by more than this factor is suspect.",
        type=Number(above=True, low=1, high=100),
        default=_DEFAULT.slower_by,
    ),
    Field(
        name="better",
        doc="Which numbers are better: `higher` (a bandwidth) or `lower` (a time).",
        type=Choice(choices=(_HIGHER, _LOWER)),
        default=_HIGHER,
    ),
    Field(
        name="every",
        doc="With `periodic_idle`: how often an idle node is checked.",
        type=Duration(above=True),
        default="24h",
    ),
    expected="a mapping such as `{run: dcgmi diag -r 2, time_limit: 5m}`",
)

_STAGES = {
    CheckStage.BEFORE_START: "Runs on the nodes of a run before it starts; bad nodes are replaced.",
    CheckStage.BEFORE_RETURN: "Runs on a quarantined node; it comes back only if this passes.",
    CheckStage.PERIODIC_IDLE: "Runs on idle nodes, one rack at a time, while `watch --all` runs.",
}

CHECKS = section(
    *(Field(name=stage.value, doc=doc, type=CHECK) for stage, doc in _STAGES.items()),
    expected="a mapping such as `{before_return: {run: dcgmi diag -r 2}}`",
)


def read_checks(checks: Values, inventory: Path, out: Diagnostics) -> CheckPolicy:
    """Return the checks of an inventory; mistakes go to `out`. `inventory` is its file."""
    written = {stage: values for stage in CheckStage if (values := checks.get(stage.value, Values)) is not None}
    found = {stage: _check(values, stage, inventory, out) for stage, values in written.items()}
    return CheckPolicy(**{stage.value: check for stage, check in found.items()})


def _check(values: Values, stage: CheckStage, inventory: Path, out: Diagnostics) -> NodeCheck:
    script = _script(values, stage, inventory, out)
    limit, every = values.get("time_limit", float), values.get("every", float)
    if limit is not None and limit > LONGEST_S:
        hint = "a node is held for as long"
        out.mistake(values.mark_of("time_limit"), f"`time_limit` is more than {LONGEST_S / 3600:.0f} hours", hint)
    if every is not None and stage is not CheckStage.PERIODIC_IDLE:
        out.mistake(values.key_of("every"), f"`every` has no effect in `{stage.value}`", "move it into `periodic_idle`")
    slower_by = values.get("slower_by", float)
    return NodeCheck(
        script=script,
        on=CheckScope(values.get("scope", str) or _DEFAULT.on.value),
        limit=_DEFAULT.limit if limit is None else limit,
        slower_by=_DEFAULT.slower_by if slower_by is None else slower_by,
        lower_is_better=values.get("better", str) == _LOWER,
        every=_DEFAULT.every if every is None else every,
    )


def _script(values: Values, stage: CheckStage, inventory: Path, out: Diagnostics) -> str:
    command, file = values.get("run", str), values.get("script", str)
    if command is not None and file is not None:
        out.mistake(values.key_of("script"), f"`{stage.value}` has both `run` and `script`", "remove one of the two")
    if not (values.has("run") or values.has("script")):
        out.mistake(values.mark, f"`{stage.value}` has no command", "add `run:`, or `script:` with a file")
    if file is not None:
        command = _file(file, values, inventory, out)
    if command is not None and len(command.encode()) > MAX_SCRIPT:
        out.mistake(values.mark_of("run"), f"`run` is larger than {MAX_SCRIPT // 1000} kB", "shorten it")
    return command or ""


def _file(file: str, values: Values, inventory: Path, out: Diagnostics) -> str | None:
    """Return the program in a file; None where it cannot be one."""
    mark, path = values.mark_of("script"), inventory.parent / Path(file).expanduser()
    if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe would block, and is empty the next time
        out.mistake(mark, f"cannot use `{file}`: this is not a regular file")
        return None
    try:
        text = read_text(path, what="script", limit=MAX_SCRIPT)
    except SpecError as error:
        for mistake in error.mistakes:
            out.mistake(mark, f"cannot use `{file}`: {mistake.what}", mistake.hint)
        return None
    if not text.strip():
        out.mistake(mark, f"cannot use `{file}`: the file is empty", "an empty script would pass on every node")
        return None
    return text
