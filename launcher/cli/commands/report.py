"""`report` and `replay`: a run in one archive, for people who were not there, and its decisions made again."""

from __future__ import annotations

import json
import tarfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from launcher.cli.options import RunWord, home
from launcher.cli.output.console import clean, refuse, say, show
from launcher.cli.plain import PlainCommand
from launcher.errors import ExitCode

if TYPE_CHECKING:
    from launcher.store.decision_log import Look

JOURNAL = "journal.jsonl"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(cls=PlainCommand)(report)
    app.command(cls=PlainCommand)(replay)


def report(
    run: RunWord,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to; else `RUN-report.tar.gz`.")
    ] = None,
) -> None:
    """Write one archive of a run for a post-mortem.

    Journal, events, status, task, what is known of its nodes, and the
    ends of its logs. Values of secrets are in none of them: those of a run
    that is over are read from the environment, or its logs are left out.
    Left out too are `fence_command`, user and password of URLs, and what
    has a name like `API_KEY`.

    \b
    Example:
      nvlaunch report vla-pretrain -o vla.tar.gz
    """
    from launcher.cli.report_contents import dossier
    from launcher.store.store import Store

    store = Store(home())
    row = store.find(run)
    path = output or Path(f"{row.name}-report.tar.gz")
    try:
        with tarfile.open(path, "x:gz") as archive:
            for name, data in dossier(store, row):
                entry = tarfile.TarInfo(f"{row.id}/{name}")
                entry.size, entry.mode, entry.mtime = len(data), 0o600, int(row.created)
                archive.addfile(entry, BytesIO(data))
    except FileExistsError:
        refuse(f"`{path}` is there already", hint="name another file with `-o`")
    except OSError as error:
        if path.is_file():
            path.unlink()
        refuse(f"cannot write `{path}`: {(error.strerror or str(error)).lower()}")
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    say(f"wrote {path}; `nvlaunch replay {path}` makes its decisions again")


def replay(
    journal: Annotated[
        str, typer.Argument(metavar="JOURNAL", help=f"A report, its `{JOURNAL}`, or the name of a run.")
    ],
) -> None:
    """Make the decisions of a run again and compare.

    Exit 1 where one comes out otherwise, and then it is shown.

    \b
    Example:
      nvlaunch replay vla.tar.gz
    """
    from launcher.drive.replay import replay as again

    try:
        found = again(_looks(journal))
    except ValueError as error:  # pydantic's ValidationError is one
        words = _words(error)
        refuse(f"`{journal}` has a decision that this version cannot read: {words}", hint="replay it with its own")
    if found.difference is not None:
        difference = found.difference
        for words in difference.messages:
            show(clean(f"decision {difference.number}, at {difference.at:.1f} s: {words}"))
        raise typer.Exit(ExitCode.JOB_FAILED)
    if not found.count:
        refuse(f"`{journal}` has no decision to make again", hint="a run that waits for its turn has none yet")
    show(f"{found.count} decisions, all the same")


def _looks(word: str) -> Iterator[Look]:
    """Return the looks of a file, or else of a run."""
    from launcher.store.decision_log import read_lines
    from launcher.store.store import Store

    path = Path(word)
    if path.is_file():
        yield from read_lines(_lines(path))
        return
    store = Store(home())
    yield from store.looks.of(store.find(word).id)


def _words(error: ValueError) -> str:
    """Return where and what it is; pydantic's first line only counts."""
    first, *rest = str(error).splitlines() or [type(error).__name__]
    return ": ".join(line.strip().partition(" [type=")[0] for line in rest[:2]) or first


def _lines(path: Path) -> Iterator[str]:
    """Return the lines of a journal, or of that of a report; SpecError for a file that is neither."""
    try:
        lines = _packed(path) if tarfile.is_tarfile(path) else _written(path)
        for number, line in enumerate(lines):
            if number == 0 and not _is_look(line):
                _refuse_other(path)
            yield line
    except UnicodeDecodeError:
        _refuse_other(path)
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:  # gzip's word for half a file is EOFError
        refuse(f"cannot read `{path}`: {str(error).lower()}")


def _written(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        yield from (line for line in file if line.strip())


def _packed(path: Path) -> Iterator[str]:
    found = False
    with tarfile.open(path) as archive:
        for entry in archive:
            if entry.isreg() and Path(entry.name).name == JOURNAL:
                found = True
                member = archive.extractfile(entry)
                assert member is not None  # it is a regular file
                yield from (line.decode() for line in member if line.strip())
    if not found:
        _refuse_other(path)


def _is_look(line: str) -> bool:
    """Whether a line is a decision, of whichever version."""
    try:
        shape = json.loads(line)
    except ValueError:
        return False
    return isinstance(shape, dict) and {"run", "seen", "made"} <= shape.keys()


def _refuse_other(path: Path) -> NoReturn:
    refuse(f"`{path}` is no report and no journal", hint=f"give what `report` wrote, or the `{JOURNAL}` in it")
