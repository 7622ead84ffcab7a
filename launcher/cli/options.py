"""Arguments and options that several commands share."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from launcher.store.home import home


class Output(Enum):
    """Output formats."""

    TEXT = "text"
    JSON = "json"


def _run_names(incomplete: str) -> list[str]:
    """Return the names of runs that begin with a text, for shell completion."""
    from launcher.store.status_reads import StatusReader

    return [name for name in StatusReader(home()).names() if name.startswith(incomplete)]


RunWord = Annotated[str, typer.Argument(metavar="RUN", help="Name or id of the run.", autocompletion=_run_names)]
RunWords = Annotated[
    list[str] | None, typer.Argument(metavar="RUN", help="Names or ids of runs.", autocompletion=_run_names)
]
OneRun = Annotated[str | None, typer.Argument(metavar="[RUN]", help="Name or id of a run.", autocompletion=_run_names)]
OneRunOrAll = Annotated[
    str | None,
    typer.Argument(metavar="RUN", help="Name or id of a run (default: all runs).", autocompletion=_run_names),
]
TaskFile = Annotated[Path, typer.Argument(metavar="FILE", help="Task file (YAML).")]
As = Annotated[Output, typer.Option("-o", "--output", help="Output format.")]
FleetFile = Annotated[
    str | None,
    typer.Option(
        "-i",
        "--inventory",
        metavar="FILE",
        help="Inventory file (default: $NVLAUNCH_INVENTORY); `built-in` means local racks.",
    ),
]
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask for confirmation.")]
Follow = Annotated[bool, typer.Option("-f", "--follow", help="Continue until the run ends.")]
Name = Annotated[str | None, typer.Option("-n", "--name", help="Name of the run (default: the task's name).")]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="K[=V]", help="Set a variable; `K` alone copies it from the environment."),
]
EnvFile = Annotated[
    list[Path] | None, typer.Option("--env-file", metavar="FILE", help="Set variables from a file of `K=V` lines.")
]
Secret = Annotated[
    list[str] | None,
    typer.Option("--secret", metavar="NAME[=@FILE]", help="Pass a secret from the environment, or from a file."),
]
OneRank = Annotated[str | None, typer.Option("--rank", metavar="N", help="One rank: its number, or `GROUP/N`.")]
OneSlice = Annotated[
    str | None, typer.Option("--slice", metavar="N", help="The ranks of one slice: its number, or `GROUP.sN`.")
]
OnNode = Annotated[str | None, typer.Option("--node", metavar="NODE", help="One node of the run, spares included.")]
AllRanks = Annotated[bool, typer.Option("--all", help="All ranks.")]
