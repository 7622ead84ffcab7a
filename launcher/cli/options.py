"""Arguments and options that several commands share."""

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from launcher.store.home import home


class Output(Enum):
    """Output formats."""

    TEXT = "text"
    JSON = "json"


def run_names(incomplete: str) -> list[str]:
    """Return the names of runs that begin with a text, for shell completion."""
    from launcher.store.status_reads import StatusReader

    return [name for name in StatusReader(home()).names() if name.startswith(incomplete)]


def _shown(context: typer.Context) -> dict[str, Any]:
    """Return the status of the run that a command line names; empty where it names none."""
    from launcher.errors import LaunchError
    from launcher.store.status_reads import StatusReader

    reader = StatusReader(home())
    # An option that lacks its value ends the parsing: the words before it are in `args` then.
    for word in (context.params.get("run"), *context.args):
        try:
            if word:
                return reader.find(word).plain()
        except (LaunchError, ValueError):
            continue
    return {}


def _ranks(context: typer.Context, incomplete: str) -> list[str]:
    """Return the ranks of a run for shell completion: numbers, or `GROUP/N` where there are several groups."""
    ranks = _shown(context).get("ranks") or ()
    several = len({one["group"] for one in ranks}) > 1
    found = (f"{one['group']}/{one['rank']}" if several else str(one["rank"]) for one in ranks)
    return [name for name in found if name.startswith(incomplete)]


def _slices(context: typer.Context, incomplete: str) -> list[str]:
    """Return the slices of a run for shell completion."""
    from launcher.core.model.placement import slice_key

    keys = dict.fromkeys(slice_key(one["group"], one["slice"]) for one in _shown(context).get("ranks") or ())
    return [key for key in keys if key.startswith(incomplete)]


def _nodes(context: typer.Context, incomplete: str) -> list[str]:
    """Return the nodes of a run for shell completion, spares included."""
    shown = _shown(context)
    names = dict.fromkeys(one["node"] for key in ("ranks", "spares") for one in shown.get(key) or ())
    return [name for name in names if name.startswith(incomplete)]


def _whose_output(incomplete: str) -> list[str]:
    """Return words of `up --rank` for shell completion, where no run is known yet."""
    return [word for word in ("all", "none", "0") if word.startswith(incomplete)]


RunWord = Annotated[str, typer.Argument(metavar="RUN", help="Name or id of the run.", autocompletion=run_names)]
RunWords = Annotated[
    list[str] | None, typer.Argument(metavar="RUN", help="Names or ids of runs.", autocompletion=run_names)
]
OneRun = Annotated[str | None, typer.Argument(metavar="[RUN]", help="Name or id of a run.", autocompletion=run_names)]
OneRunOrAll = Annotated[
    str | None,
    typer.Argument(metavar="RUN", help="Name or id of a run (default: all runs).", autocompletion=run_names),
]
TaskFile = Annotated[Path, typer.Argument(metavar="FILE", help="Task file (YAML); `-` is stdin.")]
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
OneRank = Annotated[
    str | None,
    typer.Option("--rank", metavar="N", help="One rank: its number, or `GROUP/N`.", autocompletion=_ranks),
]
OneLog = Annotated[
    str | None,
    typer.Option("--rank", metavar="N", help="Log of one rank: its number, or `GROUP/N`.", autocompletion=_ranks),
]
ShownRank = Annotated[
    str | None,
    typer.Option(
        "--rank",
        metavar="N",
        help="Whose output to show: a rank, such as `3` or `GROUP/0`, or `all`, or `none`.",
        autocompletion=_whose_output,
    ),
]
OneSlice = Annotated[
    str | None,
    typer.Option(
        "--slice",
        metavar="N",
        help="The ranks of one slice: its number, or `GROUP.sN`.",
        autocompletion=_slices,
    ),
]
OnNode = Annotated[
    str | None,
    typer.Option("--node", metavar="NODE", help="One node of the run, spares included.", autocompletion=_nodes),
]
NodeLogs = Annotated[
    str | None, typer.Option("--node", metavar="NODE", help="Logs of one node.", autocompletion=_nodes)
]
AllRanks = Annotated[bool, typer.Option("--all", help="All ranks.")]
