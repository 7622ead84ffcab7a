"""Makes a connection: route, handshake, host key, login.

Each step has its own errors.
"""

import logging
from collections.abc import Callable

import paramiko

from launcher.errors import RemoteError
from launcher.transport.ssh.auth import PrivateKeys, log_in
from launcher.transport.ssh.config import Settings
from launcher.transport.ssh.connections import Connection, HandshakeSlots, patiently
from launcher.transport.ssh.host_keys import HostKey, HostKeys
from launcher.transport.ssh.operation import HostKeyError, Operation, SilentError
from launcher.transport.ssh.route import Route, Routes, direct, dropped, proxied, through

# paramiko logs errors, and Python prints the log to the terminal where no handler is set.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False
logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)

_WAKE_S = 2.0
"""How often the thread of an idle connection wakes: paramiko's own 0.1 s costs a tenth of a core at 128 nodes."""

_KEEPALIVE_S = 15
_SILENT = "check that the jump host is on, and the network up to it"
_FAST = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
"""Ciphers, fastest first; what is older than these is not spoken."""


class _Transport(paramiko.Transport):
    _active_check_timeout = _WAKE_S


class Dialler:
    """Connects to machines."""

    def __init__(self, hosts: HostKeys) -> None:
        self._hosts = hosts
        self._keys = PrivateKeys()
        self._turns = HandshakeSlots()
        self._ways = Routes()

    def close(self) -> None:
        """Cancel the connections that are being made."""
        self._ways.close()

    def dial(
        self, settings: Settings, link_to: Callable[[Settings, Operation], Connection], op: Operation
    ) -> Connection:
        """Return a connection after the login; RemoteError says which step failed."""
        transport, way = self._greet(settings, link_to, op, self._hosts.judge)
        try:
            with self._turns.turn(settings.via, op):
                log_in(transport, settings, self._keys, op)
            # Behind a jump host the kernel's own keepalives end at that host.
            transport.set_keepalive(_KEEPALIVE_S if settings.via else 0)
            return Connection(transport, way)
        except BaseException as error:
            way.close()
            transport.close()
            if isinstance(error, (paramiko.SSHException, EOFError, OSError)):
                message = f"the connection was lost while logging in: {str(error) or type(error).__name__}"
                raise op.error("auth", message, "see the log of its sshd") from error
            raise

    def host_key(
        self, settings: Settings, link_to: Callable[[Settings, Operation], Connection], op: Operation
    ) -> HostKey:
        """Return the key that a machine presents, whatever is known of it.

        Nothing is stored, and there is no login.
        """
        transport, way = self._greet(settings, link_to, op, lambda *_: None)
        try:
            return _shown(transport)
        finally:
            way.close()
            transport.close()

    def _greet(
        self,
        settings: Settings,
        link_to: Callable[[Settings, Operation], Connection],
        op: Operation,
        judge: Callable[[Settings, HostKey, Operation], None],
    ) -> tuple[paramiko.Transport, Route]:
        """Return a connection after the key exchange, its host key judged.

        A pin does not say of which type the key is: where the first does not match, the machine's others are tried.
        """
        refused: HostKeyError | None = None
        without: tuple[str, ...] = ()
        while True:
            try:
                transport, way = patiently(op, self._ways.left)(self._handshake, settings, link_to, without, op)
            except RemoteError as error:
                raise refused or error from None
            key = _shown(transport)
            try:
                judge(settings, key, op)
                return transport, way
            except BaseException as error:
                way.close()
                transport.close()
                if not isinstance(error, HostKeyError) or settings.pin is None:
                    raise
                refused = refused or error
                without = (*without, *key.algorithms)

    def _handshake(
        self,
        settings: Settings,
        link_to: Callable[[Settings, Operation], Connection],
        without: tuple[str, ...],
        op: Operation,
    ) -> tuple[paramiko.Transport, Route]:
        way = self._way(settings, link_to, op)
        try:
            way.await_word(op, min(settings.connect_s, op.left))
            with self._turns.turn(settings.via, op):
                return self._exchange_keys(settings, way, without, op), way
        except BaseException:
            way.close()
            raise

    def _way(self, settings: Settings, link_to: Callable[[Settings, Operation], Connection], op: Operation) -> Route:
        if settings.via is not None:
            try:
                link = link_to(settings.via, op)
            except RemoteError as error:
                message = f"jump host `{settings.via.address}`: {error.message}"
                raise op.error(error.stage, message, *error.hints, tail=error.tail) from error
            try:
                return self._ways.add(through(link.transport, settings, op))
            except SilentError as error:
                if link.answers():
                    raise
                link.cut()
                raise dropped(op, f"jump host `{settings.via.address}` does not answer any more", _SILENT) from error
        if settings.proxy_command is not None:
            return self._ways.add(proxied(settings, op))
        return direct(settings, self._ways, op)

    def _exchange_keys(
        self, settings: Settings, way: Route, without: tuple[str, ...], op: Operation
    ) -> paramiko.Transport:
        transport = _Transport(way.pipe)
        patience = max(0.001, min(settings.connect_s, op.left))
        transport.banner_timeout = transport.handshake_timeout = patience
        options = transport.get_security_options()
        options.ciphers = [name for name in _FAST if name in options.ciphers]
        first = self._hosts.known(settings).algorithms
        types = dict.fromkeys((*(name for name in first if name in options.key_types), *options.key_types))
        options.key_types = [name for name in types if name not in without]
        try:
            transport.start_client(timeout=patience)
            _shown(transport)  # start_client also returns after its timeout
        except (paramiko.SSHException, EOFError, OSError) as error:
            hung = transport.is_active()
            transport.close()
            if hung:
                hint = "check the load of the machine"
                op.fail("connect", f"the key exchange did not end within {patience:.0f} s", hint)
            if isinstance(error, paramiko.SSHException) and "banner" not in str(error):
                op.fail("connect", f"no common SSH algorithms: {str(error).lower()}", "its sshd may be too old")
            raise dropped(op, str(error).lower() or "connection closed", said=way.last_words()) from error
        return transport


def _shown(transport: paramiko.Transport) -> HostKey:
    key = transport.get_remote_server_key()
    return HostKey(key.get_name(), key.asbytes())
