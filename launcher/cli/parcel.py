"""What a task takes to its nodes, as people are told of it before anything is sent; and the copy that is kept."""

from launcher.cli.options import home
from launcher.cli.output.console import clean, say, warn
from launcher.core.model.inventory import Inventory, Transport
from launcher.core.model.run import Run
from launcher.core.model.task import Task
from launcher.core.model.text import count

MANY_FILES = 20_000
MANY_BYTES = 200_000_000
"""From here on people are warned: every node of the run gets as much."""

NAMED = 3


def tell_files(task: Task, fleet: Inventory) -> None:
    """Say how much goes to each node, and what of it cannot; LaunchError where something cannot be read."""
    from launcher.transport.upload.files import weigh

    if fleet.transport is Transport.SIM or (task.workdir is None and not task.file_mounts):
        return
    found = weigh(task)
    words = f"{count(found.files, 'file')}, {found.size / 1e6:.1f} MB, {found.ignored} ignored"
    say(f"to each node: {words}")
    if found.files > MANY_FILES or found.size > MANY_BYTES:
        hint = "leave out what the ranks do not need: `.gitignore` and `.skyignore` are honoured"
        warn(f"{words} go to each node, which takes a while: {hint}")
    if found.special:
        more = f" and {len(found.special) - NAMED} more" if len(found.special) > NAMED else ""
        named = ", ".join(f"`{name}`" for name in found.special[:NAMED])
        warn(clean(f"left out, being sockets, pipes or devices: {named}{more}"))


def keep_files(run: Run) -> None:
    """Keep what the run takes to its nodes as it is now, so that a spare of next week gets the same."""
    from launcher.transport.upload.files import keep

    if run.fleet.transport is not Transport.SIM and (run.task.workdir is not None or run.task.file_mounts):
        keep(home(), run)
