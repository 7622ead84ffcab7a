"""`init`: starter files for tasks and inventories."""

import json
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli.output.console import say
from launcher.cli.plain import PlainCommand
from launcher.errors import refuse


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(init)


def _examples(incomplete: str) -> list[tuple[str, str]]:
    """Return the examples that begin with a text, for shell completion."""
    from launcher.config.templates import EXAMPLES

    return [(name, words) for name, words in EXAMPLES.items() if name.startswith(incomplete)]


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the files.")] = Path(),
    like: Annotated[
        str,
        typer.Option("--like", metavar="EXAMPLE", help="Copy the task of an example.", autocompletion=_examples),
    ] = "",
    checks: Annotated[bool, typer.Option("--checks", help="Write examples of checks of nodes too.")] = False,
) -> None:
    """Write starter files: task, inventory, schemas.

    Existing files are not changed. Examples: demo, torchrun, vla-8x64,
    ray-driver, rl, prefill-decode, shared-nodes, plain-skypilot.

    \b
    Example:
      nvlaunch init my-job
      nvlaunch init my-job --like torchrun
    """
    from launcher.config.json_schema import SpecKind, json_schema, schema_file
    from launcher.config.templates import CHECKS, read_check, read_template

    files = {f"{kind.value}.yaml": read_template(f"{kind.value}.yaml") for kind in SpecKind}
    if like:
        files["task.yaml"] = _like(like)
        _keep_other(folder / "task.yaml", files["task.yaml"])
    files |= {schema_file(kind): json.dumps(json_schema(kind), indent=2) + "\n" for kind in SpecKind}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            _write(folder / name, text)
        if checks:
            (folder / "checks").mkdir(exist_ok=True)
            for name in CHECKS:
                _write(folder / "checks" / name, read_check(name))
    except OSError as error:
        refuse(f"cannot write to `{folder}`: {(error.strerror or str(error)).lower()}")
    if checks:
        say("to use a check, add to inventory.yaml: `checks: {before_return: {script: checks/memory_disk.py}}`")
    enter = "" if folder == Path() else f"`cd {folder}`, "
    say(f"next: {enter}edit task.yaml, then run `nvlaunch plan task.yaml`")
    say(
        "for your own machines: edit inventory.yaml, run `nvlaunch doctor -i inventory.yaml`, "
        "then `nvlaunch plan task.yaml -i inventory.yaml`"
    )


def _like(name: str) -> str:
    """Return the task of an example, with the line by which editors find its schema."""
    from launcher.config.json_schema import SpecKind, schema_file
    from launcher.config.templates import EXAMPLES, read_example

    if name not in EXAMPLES:
        listed = ", ".join(f"`{known}`" for known in EXAMPLES)
        refuse(f"no example is named `{name}`", hint=f"the examples are {listed}")
    return f"# yaml-language-server: $schema={schema_file(SpecKind.TASK)}\n{read_example(name)}"


def _keep_other(file: Path, text: str) -> None:
    """Refuse to go on where another task is in the way of the one that was asked for."""
    try:
        same = file.read_text(encoding="utf-8", errors="replace") == text
    except OSError:  # it does not exist, or `_write` reports it
        return
    if not same:
        refuse(f"{file} already exists; nothing was changed", hint="use another folder, or remove the file")


def _write(file: Path, text: str) -> None:
    try:
        out = file.open("x", encoding="utf-8")
    except FileExistsError:
        say(f"{file} already exists, unchanged")
        return
    try:
        with out:
            out.write(text)
    except OSError:
        file.unlink(missing_ok=True)  # the next `init` would leave half a file as it is
        raise
    say(f"wrote {file}")
