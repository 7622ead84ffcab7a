"""`report`: a run in one archive, for a post-mortem elsewhere."""

import os
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli.options import RunWord
from launcher.cli.output.console import say
from launcher.cli.plain import PlainCommand
from launcher.errors import refuse
from launcher.store.home import home


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(report)


def report(
    run: RunWord,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Archive to write (default: `RUN-report.tar.gz`)."),
    ] = None,
) -> None:
    """Write an archive of a run for a post-mortem.

    It has the journal, events, status, task, history of its nodes, and
    the ends of all logs. Secrets are removed from all of them; for a run
    that has ended, their values must be in the environment, or the logs
    are left out. Also removed: `fence_command`, user and password in
    URLs, and values with names like `API_KEY`.

    \b
    Example:
      nvlaunch report vla-pretrain -o vla.tar.gz
    """
    from launcher.cli.report_contents import contents
    from launcher.store.store import Store

    store = Store(home())
    row = store.find(run)
    path = output or Path(f"{row.name}-report.tar.gz")
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as out, tarfile.open(fileobj=out, mode="w:gz") as archive:
            for name, data in contents(store, row):
                entry = tarfile.TarInfo(f"{row.id}/{name}")
                entry.size, entry.mode, entry.mtime = len(data), 0o600, int(row.created)
                archive.addfile(entry, BytesIO(data))
    except FileExistsError:
        refuse(f"`{path}` already exists", hint="name another file with `-o`")
    except OSError as error:
        if path.is_file():
            path.unlink()
        refuse(f"cannot write `{path}`: {(error.strerror or str(error)).lower()}")
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    say(f"wrote {path}; `nvlaunch replay {path}` repeats its decisions")
