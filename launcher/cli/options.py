"""What several commands take: the word for a run, `-o`, `-i`, `-y`; and where `$NVLAUNCH_HOME` is."""

import os
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli.output.console import refuse


class Output(Enum):
    """How data is written."""

    TEXT = "text"
    JSON = "json"


def home() -> Path:
    """Return the folder that runs are kept in; SpecError where it is named by a user that has no home."""
    given = os.environ.get("NVLAUNCH_HOME")
    try:
        return Path(given).expanduser().absolute() if given else Path.home().absolute() / ".nvlaunch"
    except RuntimeError:  # pathlib's word for it: `~name` of no such user, or no `$HOME` and no line in passwd(5)
        what = f"cannot tell where `{given}` is" if given else "this user has no home folder to keep runs in"
        refuse(what, hint="set `NVLAUNCH_HOME` to a folder that you can write to")


def _run_names(incomplete: str) -> list[str]:
    """Return the names of runs that begin so, for completion in a shell."""
    from launcher.store.status_reads import Shelf

    return [name for name in Shelf(home()).names() if name.startswith(incomplete)]


RunWord = Annotated[str, typer.Argument(metavar="RUN", help="Name or id of a run.", autocompletion=_run_names)]
RunWords = Annotated[
    list[str] | None, typer.Argument(metavar="RUN", help="Names or ids of runs.", autocompletion=_run_names)
]
OneRun = Annotated[str | None, typer.Argument(metavar="[RUN]", help="Name or id of a run.", autocompletion=_run_names)]
OneRunOrAll = Annotated[
    str | None, typer.Argument(metavar="RUN", help="Name or id of a run; all without it.", autocompletion=_run_names)
]
TaskFile = Annotated[Path, typer.Argument(metavar="FILE", help="The task, as YAML.")]
As = Annotated[Output, typer.Option("-o", "--output", help="How to write it.")]
FleetFile = Annotated[
    str | None,
    typer.Option(
        "-i", "--inventory", metavar="FILE", help="Machines to use, else $NVLAUNCH_INVENTORY; `built-in`: local racks."
    ),
]
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")]
Follow = Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run is over.")]
Name = Annotated[str | None, typer.Option("-n", "--name", help="Name of the run; else that of the task.")]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="K[=V]", help="A variable; `K` alone takes it from the environment."),
]
EnvFile = Annotated[list[Path] | None, typer.Option("--env-file", metavar="FILE", help="Variables, one `K=V` a line.")]
Secret = Annotated[
    list[str] | None,
    typer.Option("--secret", metavar="NAME[=@FILE]", help="A secret, from the environment or a file."),
]
OneRank = Annotated[
    str | None, typer.Option("--rank", metavar="N", help="This rank; `GROUP/N` where there are groups.")
]
OneSlice = Annotated[
    str | None, typer.Option("--slice", metavar="N", help="The ranks of this slice; `GROUP.sN` where there are groups.")
]
OnNode = Annotated[str | None, typer.Option("--node", metavar="NODE", help="This node, also a spare.")]
AllRanks = Annotated[bool, typer.Option("--all", help="Every rank.")]
