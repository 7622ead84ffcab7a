"""Files that hosts have and the machine they run on has not: one layer for all of a rig, and the few of each host."""

import base64
import hashlib
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.rig.plan import Plan, Slot

_STANDINS = Path(__file__).with_name("standins")
_NVIDIA = ("nvidia-smi", "nvidia-imex-ctl")
USERS = ("ubuntu", "other")  # without privileges, beside root
_SSHD = """\
Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
AuthorizedKeysFile /etc/ssh/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
LogLevel VERBOSE
PidFile /run/sshd.pid
Subsystem sftp internal-sftp
"""
_HOME_FILES = {".profile": "# ~/.profile\n", ".bashrc": "# ~/.bashrc\ncase $- in *i*) ;; *) return ;; esac\nPS1='$ '\n"}


@dataclass(frozen=True)
class Account:
    """A user of the hosts."""

    name: str
    uid: int
    home: str


@cache
def accounts() -> dict[str, Account]:
    """Return root and the users, with numbers that nobody has on this machine."""
    taken = {int(line.split(":")[2]) for line in _lines("passwd")} | {
        int(line.split(":")[2]) for line in _lines("group")
    }
    free = (uid for uid in range(1000, 60000) if uid not in taken)
    made = {name: Account(name, next(free), f"/home/{name}") for name in USERS}
    return {"root": Account("root", 0, "/root"), **made}


def _lines(name: str) -> list[str]:
    """Return a table of users of this machine, without those that the rig adds."""
    lines = Path("/etc", name).read_text().splitlines()
    return [line for line in lines if line.strip() and line.split(":")[0] not in USERS]


def _unlocked(shadow: str) -> str:
    """Return a line of shadow with no password: sshd takes `!` for an account that is locked, also for keys."""
    name, _, rest = shadow.split(":", 2)
    return f"{name}:*:{rest}"


def make_key(path: Path, comment: str) -> str:
    """Make an ed25519 key pair and answer the public line without its comment."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)], check=True)
    return " ".join(path.with_suffix(path.suffix + ".pub").read_text().split()[:2])


def fingerprint(public: str) -> str:
    """Return a public key as OpenSSH shows it: `SHA256:...`."""
    digest = hashlib.sha256(base64.b64decode(public.split()[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def sshd_config(options: Mapping[str, str]) -> str:
    """Return the configuration of sshd: OpenSSH's own defaults but for `options`; the first mention wins."""
    return "".join(f"{key} {value}\n" for key, value in options.items()) + _SSHD


def make_common(layer: Path, plan: Plan, authorized: str, nvidia: bool) -> None:
    """Write the layer that all hosts of a rig share."""
    users = [one for one in accounts().values() if one.name != "root"]
    passwd = [*_lines("passwd"), *(f"{u.name}:x:{u.uid}:{u.uid}::{u.home}:/bin/bash" for u in users)]
    group = [*_lines("group"), *(f"{u.name}:x:{u.uid}:" for u in users)]
    shadow = [*map(_unlocked, _lines("shadow")), *(f"{u.name}:*:19000:0:99999:7:::" for u in users)]
    hosts = ["127.0.0.1 localhost", *(f"{slot.address} {slot.name}" for slot in plan.slots.values())]
    files = {"passwd": passwd, "group": group, "hosts": hosts, "resolv.conf": ["nameserver 127.0.0.1"]}
    for name, lines in files.items():
        put(layer / "etc" / name, "\n".join(lines) + "\n")
    put(layer / "etc/shadow", "\n".join(shadow) + "\n", mode=0o600)
    put(layer / "etc/ssh/authorized_keys", authorized + "\n")
    put(layer / "etc/ssh/sshd_config", sshd_config({}))
    (layer / "var/log").mkdir(parents=True)
    for path in ("var/lib/rig", "etc/nvidia-imex") if nvidia else ("var/lib/rig",):
        (layer / path).mkdir(parents=True)
    for standin in sorted(_STANDINS.iterdir()):
        if nvidia or standin.name not in _NVIDIA:
            put(layer / "usr/local/bin" / standin.name, standin.read_text(), mode=0o755)
    # `sudo` has to become root without a password: this copy exists in hosts alone
    elevate = layer / "usr/local/lib/rig/elevate"
    elevate.parent.mkdir(parents=True)
    shutil.copyfile(shutil.which("setpriv") or "/usr/bin/setpriv", elevate)
    elevate.chmod(0o4755)


def make_own(disk: Path, slot: Slot, state: Iterable[tuple[str, str]]) -> str:
    """Write what a host has for itself on its empty disk and answer its public host key."""
    up = disk / "up"
    up.chmod(0o755)
    put(up / "etc/hostname", f"{slot.name}\n")
    put(up / "etc/machine-id", f"{uuid.uuid4().hex}\n")
    (up / "etc/ssh").mkdir(parents=True)
    public = make_key(up / "etc/ssh/ssh_host_ed25519_key", f"root@{slot.name}")
    for path, text in state:
        put(up / path.lstrip("/"), text)
    for made in [up / "var/lib/rig", *(up / "var/lib/rig").rglob("*")]:
        made.chmod(0o777 if made.is_dir() else 0o666)
    (disk / "own/root").chmod(0o711)  # an interpreter of the launching machine may lie in there
    for account in accounts().values():
        home = disk / "own" / account.home[1:]
        home.mkdir(exist_ok=True)
        for name, text in _HOME_FILES.items():
            put(home / name, text)
            os.chown(home / name, account.uid, account.uid)
        os.chown(home, account.uid, account.uid)
        if account.uid:
            home.chmod(0o750)
    return public


def put(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file of a layer, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
