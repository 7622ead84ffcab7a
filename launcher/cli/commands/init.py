"""`init` and `schema`: how to begin writing task and inventory files."""

import json
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli.output.console import refuse, say, show
from launcher.cli.plain import PlainCommand


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(cls=PlainCommand)(init)
    app.command(cls=PlainCommand)(schema)


def _examples(incomplete: str) -> list[tuple[str, str]]:
    """Return the examples that begin so, for completion in a shell."""
    from launcher.config.templates import EXAMPLES

    return [(name, words) for name, words in EXAMPLES.items() if name.startswith(incomplete)]


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to.")] = Path(),
    like: Annotated[
        str,
        typer.Option("--like", metavar="EXAMPLE", help="Begin with the task of an example.", autocompletion=_examples),
    ] = "",
) -> None:
    """Write starter files: task, inventory, schemas.

    What is there already stays as it is. Examples: demo, torchrun, vla-8x64, ray-driver, rl, prefill-decode,
    shared-nodes, plain-skypilot.

    \b
    Example:
      nvlaunch init my-job
      nvlaunch init my-job --like torchrun
    """
    from launcher.config.json_schema import SpecKind, json_schema, schema_file
    from launcher.config.templates import read_template

    files = {f"{kind.value}.yaml": read_template(f"{kind.value}.yaml") for kind in SpecKind}
    if like:
        files["task.yaml"] = _like(like)
    files |= {schema_file(kind): json.dumps(json_schema(kind), indent=2) + "\n" for kind in SpecKind}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            _write(folder / name, text)
    except OSError as error:
        refuse(f"cannot write to `{folder}`: {(error.strerror or str(error)).lower()}")
    task, fleet = folder / "task.yaml", folder / "inventory.yaml"
    say(f"next: edit {task}, then `nvlaunch plan {task}`, or with your own machines `nvlaunch plan {task} -i {fleet}`")


def _like(name: str) -> str:
    """Return the task of an example, with the line by which editors find its schema."""
    from launcher.config.json_schema import SpecKind, schema_file
    from launcher.config.templates import EXAMPLES, read_example

    if name not in EXAMPLES:
        listed = ", ".join(f"`{known}`" for known in EXAMPLES)
        refuse(f"no example is named `{name}`", hint=f"there are {listed}")
    return f"# yaml-language-server: $schema={schema_file(SpecKind.TASK)}\n{read_example(name)}"


def _kinds(incomplete: str) -> list[str]:
    """Return the kinds of file that begin so, for completion in a shell."""
    from launcher.config.json_schema import SpecKind

    return [kind.value for kind in SpecKind if kind.value.startswith(incomplete)]


def schema(
    kind: Annotated[str, typer.Argument(metavar="task|inventory", help="Which kind of file.", autocompletion=_kinds)],
) -> None:
    """Print the JSON Schema of a kind of file.

    \b
    Example:
      nvlaunch schema task > nvlaunch-task.schema.json
    """
    from launcher.config.json_schema import SpecKind, json_schema

    if kind not in [known.value for known in SpecKind]:
        refuse(f"no schema is named `{kind}`", hint="write `nvlaunch schema task` or `nvlaunch schema inventory`")
    show(json.dumps(json_schema(SpecKind(kind)), indent=2))


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        say(f"{file} is there already, and stays as it is")
    else:
        say(f"wrote {file}")
