"""The files that a node needs before anything runs there.

Programs, agent spec, shared variables, Ray token, key for heartbeats.
"""

import io
import json
import secrets
import zipfile
from collections.abc import Collection, Iterator
from functools import cache
from importlib import resources
from pathlib import Path

from launcher.core.model.run import RunId
from launcher.runtime.protocol_files import KEY, SHARED, AgentSpec, node_key
from launcher.setup.environ import SharedVariables
from launcher.setup.layout import HEAD_PLACE, PACKAGE
from launcher.transport.private import made_once

Files = dict[str, tuple[bytes, int]]


@cache
def programs() -> Files:
    """Return the files of `launcher/runtime`; read once."""
    return dict(_modules(Path(str(resources.files("launcher.runtime"))), PACKAGE))


def _modules(folder: Path, name: str) -> Iterator[tuple[str, tuple[bytes, int]]]:
    for entry in sorted(folder.iterdir()):
        if entry.name.endswith(".py"):
            yield f"{name}/{entry.name}", (entry.read_bytes(), 0o600)
        elif (entry / "__init__.py").is_file():
            yield from _modules(entry, f"{name}/{entry.name}")


@cache
def archive() -> bytes:
    """Return the same files as an archive, which a node can run from memory."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name, (content, _) in programs().items():
            target.writestr(name, content)
    return packed.getvalue()


def agent_spec(spec: AgentSpec) -> Files:
    """Return what an agent is started with as a file."""
    return {"agent.json": (json.dumps(spec).encode(), 0o600)}


def shared(variables: SharedVariables) -> Files:
    """Return the document of shared variables as a file."""
    return {f"{SHARED}/{variables.name}": (variables.content, 0o600)}


def run_secrets(home: Path, run: RunId, place: str) -> Files:
    """Return the run's Ray token and the key of a place as files.

    The head has the key of the run, which Ray never sees: it sends its token to whoever listens on a port of its own.
    Both are made by the first call, the key first. So a run with a token and no key is one of 0.3, whose agents know of
    no key: it has none until it ends.
    """
    folder = home / "runs" / run
    if not (folder / "token").exists():
        _made(folder / KEY)
    token, files = _made(folder / "token"), dict[str, tuple[bytes, int]]()
    if (folder / KEY).exists():
        key = _made(folder / KEY)
        own = key if place == HEAD_PLACE else node_key(bytes.fromhex(key.decode()), place).hex().encode()
        files[KEY] = (own, 0o600)
    return {"token": (token, 0o600), **files}


def _made(path: Path) -> bytes:
    """Return a secret, made by the first call."""
    return made_once(path, lambda: secrets.token_hex(32).encode())


def user_secrets(home: Path, run: RunId, names: Collection[str]) -> dict[str, str]:
    """Return the values of secrets with these names, by name; none without a file."""
    try:
        content: dict[str, str] = json.loads((home / "runs" / run / "secrets.json").read_bytes())
    except FileNotFoundError:
        return {}
    return {name: value for name, value in content.items() if name in names}
