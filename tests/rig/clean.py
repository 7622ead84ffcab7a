"""Removes what rigs left whose owner is dead: `python -m tests.rig.clean`. Rigs of living owners are left alone.

A rig's folder names its owner by pid and birth, and holds the warden's pid and birth. A process is killed only if both
match and its command line names that very folder.
"""

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from tests.rig.identity import lives

BASE = Path("/run/nvlaunch-rig")
_PATIENCE = 20  # seconds for a warden to take its hosts down
_FORCED = 5


def folder_name(name: str, number: int, owner: int, born: int) -> str:
    """Return the name of a rig's folder."""
    return f"{name}-{number}-{owner}-{born}"


def kill() -> list[str]:
    """Remove what rigs of dead owners left and answer their names."""
    return [folder.name for folder in _stale() if _remove(folder)]


def _stale() -> Iterator[Path]:
    for folder in sorted(BASE.glob("*-*-*-*")):
        _, _, owner, born = folder.name.rsplit("-", 3)
        if owner.isdigit() and born.isdigit() and not lives(int(owner), int(born)):
            yield folder


def _remove(folder: Path) -> bool:
    """End the warden, which removes its world, then the folder; the kernel removes the rest with the warden."""
    if not end_warden(folder, signal.SIGTERM, _PATIENCE):
        end_warden(folder, signal.SIGKILL, _FORCED)
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        BASE.rmdir()
    return not folder.exists()


def end_warden(folder: Path, how: signal.Signals, patience: float) -> bool:
    """Signal the warden of a folder, if it is provably that, and tell whether it is gone within `patience` seconds."""
    try:
        pid, born = (int(word) for word in (folder / "warden").read_text().split())
        handle = os.pidfd_open(pid)
    except (OSError, ValueError):
        return True
    try:
        # the handle keeps the process apart from a later one with its number; what it is, is asked after opening it
        if not lives(pid, born) or str(folder).encode() not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            return True
        for number in (how, signal.SIGCONT):
            signal.pidfd_send_signal(handle, number)
        until = time.monotonic() + patience
        while lives(pid, born):
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
    except OSError:
        pass
    finally:
        os.close(handle)
    return True


def main() -> None:
    """Kill, and say what was removed."""
    removed = kill()
    print("\n".join(f"removed {name}" for name in removed) or "nothing to remove")


if __name__ == "__main__":
    main()
