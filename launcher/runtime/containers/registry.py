"""Asks a registry which content a tag has, for engines that cannot tell themselves.

The HTTP API of registries: https://distribution.github.io/distribution/spec/api/. Without a login: the engine has the
node's logins, and pulls with them.
"""

import json
import re
import urllib.error
import urllib.request
from urllib.parse import urlencode, urlsplit

from .engines import EngineError

ASK_S = 30.0
_ACCEPT = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_HUB = "registry-1.docker.io"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MOST = 1024 * 1024


def split(image: str) -> tuple[str, str, str]:
    """Return registry, repository, and tag or digest of an image; the registry is empty for Docker Hub."""
    name, _, digest = image.replace("#", "/", 1).partition("@")
    first, slash, rest = name.partition("/")
    registry = first if slash and ("." in first or ":" in first or first == "localhost") else ""
    path = rest if registry else name
    repository, _, tag = path.partition(":")
    if registry in ("docker.io", "index.docker.io", _HUB):
        registry = ""
    return registry, repository, digest or tag or "latest"


def digest(image: str) -> str:
    """Return the digest of an image in its registry; EngineError says why it cannot be had."""
    registry, repository, version = split(image)
    if _DIGEST.fullmatch(version):
        return version
    path = repository if registry or "/" in repository else f"library/{repository}"
    plain = registry.partition(":")[0] in ("localhost", "127.0.0.1")
    url = f"{'http' if plain else 'https'}://{registry or _HUB}/v2/{path}/manifests/{version}"
    try:
        found = _head(url, "")
    except urllib.error.HTTPError as error:
        if error.code != 401:
            raise _wrong(image, error) from None
        try:
            found = _head(url, _token(error.headers.get("WWW-Authenticate", "")))
        except (OSError, ValueError) as second:
            raise _wrong(image, second) from None
    except (OSError, ValueError) as error:
        raise _wrong(image, error) from None
    if not _DIGEST.fullmatch(found):
        raise EngineError(f"the registry does not say which content `{image}` has; name the image by its digest")
    return found


def _head(url: str, token: str) -> str:
    headers = {"Accept": ", ".join(_ACCEPT), **({"Authorization": f"Bearer {token}"} if token else {})}
    asked = urllib.request.Request(url, method="HEAD", headers=headers)  # noqa: S310 -- a registry
    with urllib.request.urlopen(asked, timeout=ASK_S) as answer:  # noqa: S310
        return str(answer.headers.get("Docker-Content-Digest", ""))


def _token(challenge: str) -> str:
    """Return the token that a registry gives to everybody; ValueError where it gives none."""
    told = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    realm = told.pop("realm", "")
    if not challenge.lower().startswith("bearer") or urlsplit(realm).scheme not in ("https", "http"):
        raise ValueError("unauthorized: authentication required")
    url = f"{realm}?{urlencode(told)}"
    with urllib.request.urlopen(url, timeout=ASK_S) as answer:  # noqa: S310
        found = json.loads(answer.read(_MOST))
    return str(found.get("token") or found.get("access_token") or "") if isinstance(found, dict) else ""


def _wrong(image: str, error: Exception) -> EngineError:
    if isinstance(error, urllib.error.HTTPError):
        said = {401: "unauthorized", 403: "denied", 404: "manifest unknown", 429: "toomanyrequests"}.get(error.code, "")
        words = f"{said or error.reason} ({error.code})"
    else:
        words = str(getattr(error, "reason", None) or error)
    hint = f"; or write its digest, `{image.partition('@')[0]}@sha256:...`, which needs no question"
    return EngineError(f"which content `{image}` has is unknown: {words}{hint}")
