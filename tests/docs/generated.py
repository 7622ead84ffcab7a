"""The parts of pages that are made of the program: between `<!-- generated: NAME -->` and `<!-- end -->`."""

import ast
import importlib
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Container, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import typer

from launcher.cli.main import app
from launcher.config.inventory import fields as inventory
from launcher.config.inventory.checks import CHECK
from launcher.config.schema.fields import Section
from launcher.config.task import fields as task
from launcher.config.task.container import CONTAINER
from launcher.core.control import reconcile
from launcher.core.model.simulation import FaultKind
from launcher.probe.findings import Fact
from tests.docs.markdown import ROOT, Page, read_marker, slug_of

_END = "<!-- end -->"
_LATER = "Not supported by this version."


def refreshed(page: Page) -> str:
    """The text of a page with each generated part made anew."""
    out: list[str] = []
    lines = iter(page.lines)
    for line in lines:
        out.append(line)
        if name := read_marker(line).get("generated"):
            while next(lines) != _END:
                pass
            out += ["", *PARTS[name]().strip("\n").splitlines(), "", _END]
    return "\n".join(out) + "\n"


def _section(section: Section, *without: str, inside: str = "") -> Callable[[], str]:
    """A table of the keys of a section, by its JSON Schema; of one `inside` it."""
    return lambda: _keys(_object(section.schema(), inside), without)


def _object(schema: Mapping[str, Any], inside: str) -> Mapping[str, Any]:
    if not inside:
        return schema
    found = schema["properties"][inside]
    return next(one for one in (found, *found.get("anyOf", ())) if "properties" in one)


def _keys(schema: Mapping[str, Any], without: Container[str]) -> str:
    """What each key is for, what it takes, and what stands when it is left out; no key that has no effect."""
    lines = ["| key | meaning | default |", "|---|---|---|"]
    for name, key in schema["properties"].items():
        if name in without or key.get("deprecated") or key["description"].endswith(_LATER):
            continue
        default = key.get("default")
        shown = "" if default in (None, {}) else f"`{str(default).lower() if default is False else default}`"
        needed = "required" if name in schema.get("required", ()) else shown
        lines.append(f"| `{name}` | {_cell(key['description'])}{_choices(key)} | {needed} |")
    return "\n".join(lines)


def _choices(key: Mapping[str, Any]) -> str:
    """The values that a key takes, where they are a closed set."""
    listed = next((one["enum"] for one in (key, *key.get("anyOf", ())) if "enum" in one), ())
    return f" One of {', '.join(f'`{value}`' for value in listed)}." if listed else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _commands() -> str:
    """Every command as a page shows it, and a table of them in front."""
    found = list(walk(typer.main.get_command(app), "nvlaunch"))
    lines = ["| command | what it does |", "|---|---|"]
    lines += [f"| [`{path}`](#{slug_of(path)}) | {_paragraphs(command)[0]} |" for path, command in found]
    return "\n\n".join(["\n".join(lines), *(_command(path, command) for path, command in found)])


def walk(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Each command below a group that people may type, with its words."""
    for name, command in group.commands.items():
        if not command.hidden:
            yield from walk(command, f"{path} {name}") if _has_commands(command) else [(f"{path} {name}", command)]


def _has_commands(command: Any) -> bool:
    return bool(getattr(command, "commands", None))


def _command(path: str, command: Any) -> str:
    shown = [param for param in command.params if not param.hidden] if hasattr(command, "params") else []
    arguments = [param for param in shown if param.param_type_name == "argument"]
    options = [param for param in shown if param.param_type_name == "option"]
    usage = " ".join([path, *(["[OPTIONS]"] if options else []), *map(_argument, arguments)])
    rows = [(_bare(_argument(param)).removesuffix("..."), param) for param in arguments]
    rows += [(_option(param), param) for param in options]
    table = ["| argument or option | meaning |", "|---|---|"]
    table += [f"| `{_cell(name)}` | {_meaning(param)} |" for name, param in rows]
    return "\n\n".join([f"## {path}", f"```text\n{usage}\n```", *_paragraphs(command), "\n".join(table)])


def _argument(param: Any) -> str:
    name = _bare(str(param.metavar or param.name.upper()))
    name = f"{name}..." if param.nargs == -1 else name
    return name if param.required else f"[{name}]"


def _bare(text: str) -> str:
    """An argument without the brackets of one that may be left out."""
    return text[1:-1] if re.fullmatch(r"\[[^\[\]]*\]", text) else text


def _option(param: Any) -> str:
    kind = "" if param.is_flag else f" {param.metavar or _kind(param)}"
    return ", ".join([*param.opts, *param.secondary_opts]) + kind


def _kind(param: Any) -> str:
    """What an option takes that names it nowhere: the words of a closed set, else its own name."""
    if (described := getattr(param, "type_descriptor", None)) is not None:  # typer since 0.24
        one = next((arg for arg in get_args(described.annotation) if arg is not type(None)), described.annotation)
        words = [word.value for word in one] if isinstance(one, type) and issubclass(one, Enum) else []
    else:
        words = [str(word) for word in getattr(param.type, "choices", ())]
    return "|".join(words) or str(param.name).upper()


def _meaning(param: Any) -> str:
    default = getattr(param.default, "value", param.default)
    plain = isinstance(default, str | int) and not isinstance(default, bool) and str(default) not in ("", ".")
    needed = " Required." if param.required and param.param_type_name == "option" else ""
    said = str(param.help or "").strip()
    return _cell(f"{said}{needed}{f' Default: `{default}`.' if plain and not param.required else ''}")


def _paragraphs(command: Any) -> list[str]:
    """The help of a command: text that a page may wrap, and what stands after `\\b` as it is."""
    made = []
    for part in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
        if part.startswith("\b"):
            title, *lines = part.removeprefix("\b").strip("\n").splitlines()
            made.append(f"{title}\n\n```sh\n{textwrap.dedent(chr(10).join(lines))}\n```")
        else:
            made.append(" ".join(part.split()))
    return made


def _layers() -> str:
    """The layers of packages, from `pyproject.toml`, those that may be imported below."""
    text = (ROOT / "pyproject.toml").read_text()
    found = re.search(r'containers = \["launcher"\]\nlayers = \[(.*?)\]', text, re.DOTALL)
    assert found
    lines = re.findall(r'"([^"]+)"', found[1])
    return "\n".join(["```text", *(f"{'  ' * at}{line}" for at, line in enumerate(lines)), "```"])


def _modules() -> str:
    """Every module with the first line of its docstring, folder by folder."""
    folders: dict[Path, list[Path]] = {}
    for path in sorted((ROOT / "launcher").rglob("*.py")):
        if not path.name.startswith("__"):
            folders.setdefault(path.parent, []).append(path)
    parts = []
    for folder, paths in sorted(folders.items()):
        lines = [f"## {folder.relative_to(ROOT)}", ""]
        package = folder / "__init__.py"
        if package.exists() and (about := _about(package)):
            lines += [about, ""]
        lines += ["| module | what it is |", "|---|---|"]
        lines += [f"| `{path.stem}` | {_cell(_about(path))} |" for path in paths]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _about(path: Path) -> str:
    """The first sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    first = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", first)[0]


def _stages() -> str:
    """The stages of the kernel in order, each with its module and what it does."""
    stages = getattr(reconcile, "STAGES", ())
    rows = [stage if isinstance(stage, tuple) else (stage, None) for stage in stages]
    lines = ["| | stage | module | due | what it does |", "|---|---|---|---|---|"]
    for at, (stage, when) in enumerate(rows, start=1):
        module = stage.__module__.removeprefix("launcher.").replace(".", "/") + ".py"
        due = "" if when is None else when.value
        lines.append(f"| {at} | `{stage.__name__}` | `{module}` | {due} | {_cell(_summary(stage))} |")
    return "\n".join(lines)


def _summary(made: object) -> str:
    return " ".join((inspect.getdoc(made) or "").split("\n\n")[0].split())


def _limits() -> str:
    """The limits of the kernel in time and number, with their reasons, from the module that has them all."""
    path = ROOT / "launcher" / "core" / "control" / "timing.py"
    body = ast.parse(path.read_text()).body if path.exists() else []
    lines = ["| limit | value | meaning |", "|---|---|---|"]
    for one, after in itertools.pairwise(body):
        if isinstance(one, ast.Assign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            name, value = ast.unparse(one.targets[0]), getattr(timing_of(), ast.unparse(one.targets[0]))
            unit = " s" if name.endswith("_S") else ""
            lines.append(f"| `{name}` | {value:g}{unit} | {_cell(' '.join(str(after.value.value).split()))} |")
    return "\n".join(lines)


def timing_of() -> Any:
    """The module of the kernel's limits."""
    return importlib.import_module("launcher.core.control.timing")


def _api() -> str:
    """The functions of the Python API, each with its signature and what it says of itself."""
    try:
        api = importlib.import_module("launcher.api")
    except ModuleNotFoundError:
        return "This version has none yet."
    made = ((name, getattr(api, name)) for name in api.__all__)
    functions = [(name, one) for name, one in made if inspect.isfunction(one)]
    return "\n\n".join(
        f"### {name}\n\n```python\n{_signature(name, one)}\n```\n\n{_prose(one)}" for name, one in functions
    )


def _signature(name: str, function: Callable[..., object]) -> str:
    """A function as it is written, one argument a line."""
    found = inspect.signature(function)
    lines: list[str] = []
    starred = False
    for one in found.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not starred:
            lines, starred = [*lines, "    *,"], True
        default = "" if one.default is one.empty else f" = {one.default!r}"
        lines.append(f"    {one.name}: {_kind_of(one.annotation)}{default},")
    return "\n".join([f"def {name}(", *lines, f") -> {_kind_of(found.return_annotation)}"])


def _kind_of(annotation: object) -> str:
    """A type by its last name, as people write it."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", str(text)).replace("NoneType", "None")


def _prose(made: object) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (inspect.getdoc(made) or "").split("\n\n"))


PARTS: Mapping[str, Callable[[], str]] = {
    "commands": _commands,
    "api": _api,
    "layers": _layers,
    "modules": _modules,
    "stages": _stages,
    "limits": _limits,
    "task": _section(task.TASK, "topology", "recovery", "groups", "resources", "config", "container"),
    "resources": _section(task.RESOURCES),
    "topology": _section(task.TOPOLOGY),
    "recovery": _section(task.RECOVERY),
    "inventory": _section(inventory.INVENTORY, "racks", "sim", "defrag", "checks"),
    "node": _section(inventory.NODE),
    "sim": _section(inventory.INVENTORY, inside="sim"),
    "defrag": _section(inventory.INVENTORY, inside="defrag"),
    "check": _section(CHECK),
    "container": _section(CONTAINER),
    "facts": lambda: ", ".join(f"`{fact.value}`" for fact in Fact),
    "fault": lambda: ", ".join(f"`{kind.value}`" for kind in FaultKind),
}
