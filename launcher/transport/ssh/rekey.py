"""Host keys that have changed for a good reason: what is known, what is shown now, and the word that makes it known."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from launcher.core.model.inventory import Access, Inventory
from launcher.errors import RemoteError
from launcher.transport.ssh.config import Resolver, Settings
from launcher.transport.ssh.dial import Dialler
from launcher.transport.ssh.errand import Errand
from launcher.transport.ssh.host_keys import HostKeys, Key
from launcher.transport.ssh.links import Links
from launcher.transport.ssh.shell import KNOWN_HOSTS

_LOOK_S = 20.0
_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A host key as a machine shows it now, beside what was known: fingerprints, and the files that they stand in.

    `name` is the machine's in known_hosts files; `pin` what the inventory says; `good` that nothing has to change.
    """

    name: str
    key: Key
    known: tuple[tuple[str, str], ...]
    pin: str | None
    good: bool

    def foreign(self, own: Path) -> Iterator[str]:
        """Return the files of the user in which another key stands."""
        paths = (path for path, fingerprint in self.known if fingerprint != self.key.fingerprint)
        yield from (path for path in dict.fromkeys(paths) if path != str(own))


class Rekeying:
    """Looks at host keys without logging in, and takes note of them in our own file."""

    def __init__(self, home: Path) -> None:
        self.own = home / KNOWN_HOSTS
        self._hosts = HostKeys(self.own)
        self._dialler = Dialler(self._hosts)
        self._resolver = Resolver(home)
        self._links = Links(self._resolver.resolve, self._dialler.dial)

    def find(self, fleet: Inventory, word: str) -> Callable[[], Shown] | None:
        """Return how to look at a machine: a node by name or address, the head, or a jump host; None if it is none."""
        places = [*(node.access for node in fleet.nodes), *([fleet.head] if fleet.head else [])]
        named: dict[str, Access] = {access.address: access for access in places}
        named |= {node.name: node.access for node in fleet.nodes}
        access = named.get(word)
        if access is not None:
            return lambda: self._look(self._resolver.resolve(access, Errand(word, _LOOK_S)), word)
        for hop in self._hops(places):
            if hop.address == word:
                return lambda: self._look(hop, word)
        return None

    def look(self, looks: Sequence[Callable[[], Shown]]) -> list[Shown | RemoteError]:
        """Return what each machine shows, all asked at once; a failure is an answer too."""
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="rekey") as pool:
            return list(pool.map(_tried, looks))

    def accept(self, shown: Shown) -> None:
        """Have our file say that this is the machine's key, and no other."""
        self._hosts.replace(shown.name, shown.key)

    def close(self) -> None:
        """Let go of connections to jump hosts."""
        self._links.close()
        self._dialler.close()

    def _look(self, settings: Settings, word: str) -> Shown:
        key = self._dialler.host_key(settings, self._links.to, Errand(word, _LOOK_S))
        known = self._hosts.known(settings)
        return Shown(
            name=settings.known_as,
            key=key,
            known=tuple((entry.path, entry.key.fingerprint) for entry in known.keys),
            pin=settings.pin,
            good=self._hosts.knows(settings, key),
        )

    def _hops(self, places: Sequence[Access]) -> Iterator[Settings]:
        for access in places:
            settings: Settings | None = self._resolver.resolve(access, Errand(access.address, _LOOK_S))
            while settings is not None and settings.via is not None:
                settings = settings.via
                yield settings


def _tried(look: Callable[[], Shown]) -> Shown | RemoteError:
    try:
        return look()
    except RemoteError as error:
        return error
