"""Whether a store answers, asked beside its mounts: they wait for it without a word."""

import contextlib
import http.client
import os
import socket
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

ANSWER_S = 10.0
"""Seconds to connect, and for the first byte of an answer."""


class StoreProbe:
    """Asks a store for its front page, whose answer does not matter. No key is sent, so no certificate is checked."""

    def __init__(self, settings: Mapping[str, str], seconds: float = ANSWER_S) -> None:
        endpoint = next((value for name, value in settings.items() if name.endswith("_ENDPOINT")), None)
        behind_proxy = any(name.lower() in ("http_proxy", "https_proxy", "all_proxy") for name in os.environ)
        split = urlsplit(endpoint) if endpoint and not behind_proxy else None
        self._scheme = split.scheme if split else ""
        self._host = (split.hostname or "") if split else ""
        self._port = (split.port if split else None) or (80 if self._scheme == "http" else 443)
        self._seconds = seconds

    @property
    def possible(self) -> bool:
        """Whether the store can be asked: its address is known, and no proxy is between."""
        return bool(self._host)

    def trouble(self) -> str:
        """Return what is wrong with the store; empty where it answers, or cannot be asked."""
        if not self.possible:
            return ""
        try:
            with contextlib.closing(self._connection()) as asking:
                asking.connect()
                return self._unanswered(asking)
        except ssl.SSLError:
            return ""  # it speaks
        except OSError as error:
            silent = isinstance(error, TimeoutError) and self._connects()
            return self._silent() if silent else f"the store at {self._host}:{self._port} takes no connection"

    def _unanswered(self, asking: http.client.HTTPConnection) -> str:
        try:
            asking.request("HEAD", "/")
            asking.getresponse()
        except http.client.HTTPException:
            return ""  # it speaks, if not HTTP
        except OSError as error:  # one that was reset has been answered, if badly
            return self._silent() if isinstance(error, TimeoutError) else ""
        return ""

    def _connection(self) -> http.client.HTTPConnection:
        if self._scheme == "http":
            return http.client.HTTPConnection(self._host, self._port, timeout=self._seconds)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(self._host, self._port, timeout=self._seconds, context=context)

    def _connects(self) -> bool:
        """Whether the time went by in a handshake of TLS."""
        if self._scheme == "http":
            return False
        with contextlib.suppress(OSError):
            socket.create_connection((self._host, self._port), timeout=self._seconds).close()
            return True
        return False

    def _silent(self) -> str:
        return f"the store at {self._host}:{self._port} takes connections and does not answer"
