"""`replay`: the decisions of a run made again, and compared."""

from __future__ import annotations

import json
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from launcher.cli.output.console import clean, show
from launcher.cli.plain import PlainCommand
from launcher.errors import ExitCode, refuse
from launcher.store.home import home

if TYPE_CHECKING:
    from launcher.store.decision_log import LoggedDecision

DECISIONS = "decisions.jsonl"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(replay)


def replay(
    decisions: Annotated[
        str, typer.Argument(metavar="DECISIONS", help=f"A report, its `{DECISIONS}`, or the name of a run.")
    ],
) -> None:
    """Repeat the decisions of a run and compare.

    Exits with 1 at the first decision that differs, and shows how.

    \b
    Example:
      nvlaunch replay vla.tar.gz
    """
    from launcher.drive.replay import replay as repeat

    try:
        found = repeat(_logged(decisions))
    except ValueError as error:  # pydantic's ValidationError is one
        hint = "use the version of nvlaunch that wrote it"
        refuse(f"`{decisions}` has a decision that this version cannot read: {_reason(error)}", hint=hint)
    if found.difference is not None:
        difference = found.difference
        for message in difference.messages:
            show(clean(f"decision {difference.number}, at {difference.at:.1f} s: {message}"))
        raise typer.Exit(ExitCode.JOB_FAILED)
    if not found.count:
        refuse(f"`{decisions}` has no decisions", hint="a queued run has none yet")
    show(f"{found.count} decisions, all the same")


def _logged(word: str) -> Iterator[LoggedDecision]:
    """Return the decisions in a file, else those of a run."""
    from launcher.store.decision_log import read_lines
    from launcher.store.store import Store

    path = Path(word)
    if path.is_file():
        yield from read_lines(_lines(path))
        return
    store = Store(home())
    yield from store.decisions.of(store.find(word).id)


def _reason(error: ValueError) -> str:
    """Return where and what is wrong; pydantic's first line only counts errors."""
    first, *rest = str(error).splitlines() or [type(error).__name__]
    return ": ".join(line.strip().partition(" [type=")[0] for line in rest[:2]) or first


def _lines(path: Path) -> Iterator[str]:
    """Return the lines of a file of decisions, or of the one in a report.

    SpecError for a file that is neither.
    """
    try:
        lines = _packed(path) if tarfile.is_tarfile(path) else _written(path)
        for number, line in enumerate(lines):
            if number == 0 and not _is_decision(line):
                _refuse_other(path)
            yield line
    except UnicodeDecodeError:
        _refuse_other(path)
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:  # EOFError: a truncated gzip file
        refuse(f"cannot read `{path}`: {str(error).lower()}")


def _written(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        yield from (line for line in file if line.strip())


def _packed(path: Path) -> Iterator[str]:
    found = False
    with tarfile.open(path) as archive:
        for entry in archive:
            if entry.isreg() and Path(entry.name).name == DECISIONS:
                found = True
                member = archive.extractfile(entry)
                assert member is not None  # it is a regular file
                yield from (line.decode() for line in member if line.strip())
    if not found:
        _refuse_other(path)


def _is_decision(line: str) -> bool:
    """Whether a line is a decision, of this version or another."""
    try:
        shape = json.loads(line)
    except ValueError:
        return False
    return isinstance(shape, dict) and {"run", "seen", "made"} <= shape.keys()


def _refuse_other(path: Path) -> NoReturn:
    refuse(
        f"`{path}` is neither a report nor a file of decisions",
        hint=f"name a file from `report`, or the `{DECISIONS}` in it",
    )
