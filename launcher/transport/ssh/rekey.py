"""Accepts host keys that have changed for a good reason."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from launcher.core.model.inventory import Access, Inventory
from launcher.errors import RemoteError
from launcher.transport.ssh.config import Resolver, Settings
from launcher.transport.ssh.dial import Dialler
from launcher.transport.ssh.host_keys import HostKey, HostKeys
from launcher.transport.ssh.operation import Operation
from launcher.transport.ssh.pool import ConnectionPool
from launcher.transport.ssh.shell import KNOWN_HOSTS

_LOOK_S = 20.0
_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentedKey:
    """A host key as a machine presents it now, beside what was known.

    `name` is the machine's in known_hosts files, `known` has paths with fingerprints, `pin` is the inventory's; `good`:
    nothing has to change.
    """

    name: str
    key: HostKey
    known: tuple[tuple[str, str], ...]
    pin: str | None
    good: bool

    def foreign(self, own: Path) -> Iterator[str]:
        """Return the user's files that have another key."""
        paths = (path for path, fingerprint in self.known if fingerprint != self.key.fingerprint)
        yield from (path for path in dict.fromkeys(paths) if path != str(own))


class Rekeying:
    """Asks for host keys without a login, and stores accepted ones in our file."""

    def __init__(self, home: Path) -> None:
        self.own = home / KNOWN_HOSTS
        self._hosts = HostKeys(self.own)
        self._dialler = Dialler(self._hosts)
        self._resolver = Resolver(home)
        self._links = ConnectionPool(self._resolver.resolve, self._dialler.dial)

    def find(self, fleet: Inventory, word: str) -> Callable[[], PresentedKey] | None:
        """Return a function that asks a machine for its key; None for no machine.

        A node by name or address, the head, or a jump host.
        """
        places = [*(node.access for node in fleet.nodes), *([fleet.head] if fleet.head else [])]
        named: dict[str, Access] = {access.address: access for access in places}
        named |= {node.name: node.access for node in fleet.nodes}
        access = named.get(word)
        if access is not None:
            return lambda: self._look(self._resolver.resolve(access, Operation(word, _LOOK_S)), word)
        for hop in self._hops(places):
            if hop.address == word:
                return lambda: self._look(hop, word)
        return None

    def look(self, looks: Sequence[Callable[[], PresentedKey]]) -> list[PresentedKey | RemoteError]:
        """Return the key of each machine, or an error; all are asked at once."""
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="rekey") as pool:
            return list(pool.map(_tried, looks))

    def accept(self, shown: PresentedKey) -> None:
        """Make this the machine's only key in our file."""
        self._hosts.replace(shown.name, shown.key)

    def close(self) -> None:
        """Close the connections to jump hosts."""
        self._links.close()
        self._dialler.close()

    def _look(self, settings: Settings, word: str) -> PresentedKey:
        key = self._dialler.host_key(settings, self._links.to, Operation(word, _LOOK_S))
        known = self._hosts.known(settings)
        return PresentedKey(
            name=settings.known_as,
            key=key,
            known=tuple((entry.path, entry.key.fingerprint) for entry in known.keys),
            pin=settings.pin,
            good=self._hosts.knows(settings, key),
        )

    def _hops(self, places: Sequence[Access]) -> Iterator[Settings]:
        for access in places:
            settings: Settings | None = self._resolver.resolve(access, Operation(access.address, _LOOK_S))
            while settings is not None and settings.via is not None:
                settings = settings.via
                yield settings


def _tried(look: Callable[[], PresentedKey]) -> PresentedKey | RemoteError:
    try:
        return look()
    except RemoteError as error:
        return error
