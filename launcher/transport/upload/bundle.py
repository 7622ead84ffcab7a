"""The files that a node needs before anything runs there.

Programs, agent spec, shared variables, Ray token.
"""

import io
import json
import secrets
import zipfile
from functools import cache
from importlib import resources
from pathlib import Path

from launcher.core.model.run import RunId
from launcher.runtime.protocol_files import SHARED, AgentSpec
from launcher.setup.environ import SharedVariables
from launcher.setup.layout import PACKAGE

Files = dict[str, tuple[bytes, int]]


@cache
def programs() -> Files:
    """Return the files of `launcher/runtime`; read once."""
    found = (entry for entry in resources.files("launcher.runtime").iterdir() if entry.name.endswith(".py"))
    return {f"{PACKAGE}/{entry.name}": (entry.read_bytes(), 0o600) for entry in found}


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


def token(home: Path, run: RunId) -> bytes:
    """Return the run's Ray token, made by the first call.

    It stays the same, also when two threads ask at once.
    """
    path = home / "runs" / run / "token"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".token.{secrets.token_hex(4)}")
    if not path.exists():
        fresh.touch(mode=0o600)
        fresh.write_text(secrets.token_hex(32))
        try:
            path.hardlink_to(fresh)
        except FileExistsError:
            pass  # another thread's
        finally:
            fresh.unlink()
    return path.read_bytes()


def user_secrets(home: Path, run: RunId) -> dict[str, str]:
    """Return the values of the task's secrets, by name; none without a file."""
    try:
        content: dict[str, str] = json.loads((home / "runs" / run / "secrets.json").read_bytes())
    except FileNotFoundError:
        return {}
    return content
