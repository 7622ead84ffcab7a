"""Controllers for runs that come after another one, once that one has ended."""

from launcher.admission.store_retry import Say
from launcher.drive.spawn import ensure_controller
from launcher.errors import LaunchError
from launcher.store.run_files import is_whole
from launcher.store.store import Store


def start_due(store: Store, say: Say) -> tuple[str, ...]:
    """Give each run whose turn has come and that never had a controller one; return their names.

    A controller that does not start is reported, and raises nothing. A run whose files are still being stored is left
    to the command that stores them.
    """
    started = []
    try:
        due = [run for run in store.chains.due() if is_whole(store.home, run)]
    except LaunchError as error:
        say(f"runs that come after others may have no controllers: {error.advice}")
        return ()
    for run in due:
        try:
            row = store.find(run)
            ensure_controller(store.home, row)
            started.append(row.name)
        except LaunchError as error:
            say(f"`{run}`, whose turn has come, has no controller: {error.advice}")
    return tuple(started)
