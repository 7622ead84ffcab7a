"""The few system calls that make a host and that Python lacks: namespaces, mounts, the name of a machine."""

import ctypes
import os
from pathlib import Path

NEWNS, NEWUTS, NEWIPC, NEWPID, NEWNET = 0x00020000, 0x04000000, 0x08000000, 0x20000000, 0x40000000
MS_NOSUID, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 2, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_LIBC = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Leave the namespaces named in `flags` for new ones (a pid namespace: from the next child on)."""
    _check(_LIBC.unshare(flags), "unshare", str(flags))


def join(namespace: int, flags: int) -> None:
    """Enter the namespace behind an open file of /proc/PID/ns."""
    _check(_LIBC.setns(namespace, flags), "setns", str(flags))


def mount(source: str, target: Path | str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount `source` on `target`; raises OSError with both in its text."""
    args = (
        source.encode(),
        str(target).encode(),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _check(_LIBC.mount(*args), "mount", f"{kind or source} on {target}")


def unmount(target: Path | str) -> None:
    """Detach what is mounted on `target`, also while it is in use."""
    _check(_LIBC.umount2(str(target).encode(), MNT_DETACH), "umount", str(target))


def change_root(root: Path) -> None:
    """Make `root`, a mount, the root of this mount namespace, and forget the old one."""
    os.chdir(root)
    _check(_LIBC.pivot_root(b".", b"."), "pivot_root", str(root))
    unmount(".")
    os.chdir("/")


def name_machine(name: str) -> None:
    """Set the hostname of this uts namespace."""
    _check(_LIBC.sethostname(name.encode(), len(name)), "sethostname", name)


def die_with_parent(parent: int) -> None:
    """Be killed by the kernel once the parent has ended, also if it has ended already."""
    _check(_LIBC.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0), "prctl", "pdeathsig")
    if os.getppid() not in (parent, 0):  # 0: the parent is outside of this pid namespace
        os._exit(1)


def silence_ipv6(interface: str) -> None:
    """Keep IPv6, which the rig has no use for, off an interface of this network namespace, where the kernel has it."""
    setting = Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6")
    if setting.exists():
        setting.write_text("1\n")


def name_process(name: str) -> None:
    """Set the name that `ps` shows for this process."""
    _check(_LIBC.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0), "prctl", "name")


def _check(answer: int, call: str, what: str) -> None:
    if answer != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}", what)
