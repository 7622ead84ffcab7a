"""The shell of a machine over SSH: kept connections, verified hosts, deadlines."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from launcher.core.fleet import Access
from launcher.ports import Completed
from launcher.transport import ssh_command
from launcher.transport.ssh_config import Resolver
from launcher.transport.ssh_dial import Dialler
from launcher.transport.ssh_errand import Errand, LostError, tail
from launcher.transport.ssh_exchange import GRACE_S, Stdin, exchange
from launcher.transport.ssh_hosts import HostKeys
from launcher.transport.ssh_links import Links

KNOWN_HOSTS = "known_hosts"


class SshShell:
    """Runs commands and writes files on machines that are reached by SSH; `home` keeps the host keys we learn."""

    def __init__(self, home: Path) -> None:
        self._resolver = Resolver()
        self._links = Links(self._resolver.resolve, Dialler(HostKeys(home / KNOWN_HOSTS)).dial)

    def run(self, at: Access, argv: Sequence[str], *, stdin: bytes = b"", timeout: float) -> Completed:
        """Run a command to its end; RemoteError where the machine is not reached or the time is over."""
        return self._run(at, argv, (stdin,), Errand(at.address, timeout))

    def put(self, at: Access, folder: str, files: Mapping[str, tuple[bytes, int]], *, timeout: float) -> None:
        """Write files below a folder (0700), all of them or none, each by rename; RemoteError where not possible."""
        parts: list[bytes] = []
        for name, (content, mode) in files.items():
            raw = name.encode("utf-8", "surrogateescape")
            parts += [b"%d %d %d\n" % (mode, len(content), len(raw)), raw, content]
        errand = Errand(at.address, timeout)
        argv = [at.python or "python3", "-EsS", "-c", ssh_command.UNPACK, folder]
        ended = self._run(at, argv, (*parts, b"end\n"), errand)
        if ended.status != 0:
            said = tail(ended.stderr)
            words = f"cannot write to `{folder}`: {said[-1] if said else f'status {ended.status}'}"
            errand.fail("put", words, tail=said)

    def close(self) -> None:
        """Close every connection; what runs on the machines goes on."""
        self._links.close()
        self._resolver.close()

    def _run(self, at: Access, argv: Sequence[str], stdin: Stdin, errand: Errand) -> Completed:
        try:
            return self._once(at, argv, stdin, errand)
        except LostError:
            return self._once(at, argv, stdin, errand)  # it had died unnoticed, and nothing was begun on it

    def _once(self, at: Access, argv: Sequence[str], stdin: Stdin, errand: Errand) -> Completed:
        link = self._links.link(at, errand)
        with link.cut_after(errand.left + GRACE_S), link.session(errand) as channel:
            return exchange(link, channel, argv, stdin, errand)
