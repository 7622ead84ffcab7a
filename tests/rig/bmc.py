"""The power switch of a rig's hosts for other processes: `python -m tests.rig.bmc FOLDER HOST [status]`.

It turns a host off, or says with 0 that it is: also of one that is off already. Like every switch of a rig it kills
only what is provably its PID 1.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.rig.identity import lives

_PATIENCE = 10  # seconds


def main() -> None:
    """Turn a host off: silence first, then the end of all its processes."""
    folder, name, asks = Path(sys.argv[1]), sys.argv[2], sys.argv[3:] == ["status"]
    warden, warden_born = (int(word) for word in (folder / "warden").read_text().split())
    rows = dict(line.split(" ", 1) for line in (folder / "power").read_text().splitlines())
    if not lives(warden, warden_born) or name not in rows:
        return
    pid, born, cable = rows[name].split()
    if asks:
        sys.exit(f"`{name}` is on" if lives(int(pid), int(born)) else 0)
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(int(pid))
        if not lives(int(pid), int(born)):
            return
        subprocess.run(["nsenter", "-t", str(warden), "-n", "ip", "link", "del", cable], check=True)
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        until = time.monotonic() + _PATIENCE
        while lives(int(pid), int(born)):
            if time.monotonic() > until:
                sys.exit(f"`{name}` does not turn off")
            time.sleep(0.01)


if __name__ == "__main__":
    main()
