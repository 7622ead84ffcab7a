"""Files of a run below `$NVLAUNCH_HOME`.

Secrets and copies of what it sends to nodes. They live as long as the run.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from launcher.core.model.run import RunId
from launcher.errors import LaunchError, StoreError

_WHOLE = "whole"
"""The file in a run's folder that `mark_whole` makes."""


def secrets_file(home: Path, run: RunId) -> Path:
    """Return where the secrets of a run are stored for its controllers."""
    return home / "runs" / run / "secrets.json"


def read_secrets(file: Path) -> dict[str, str]:
    """Return the stored secrets of a run, by name; none without a file."""
    try:
        content: dict[str, str] = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    return content


def write_secrets(file: Path, secrets: Mapping[str, str]) -> None:
    """Write the secrets of a run to a file that only its owner can read.

    Nothing where there are none.
    """
    if not secrets:
        return
    draft = file.with_suffix(".new")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
            json.dump(dict(secrets), out)
        draft.replace(file)
    except OSError as error:
        raise LaunchError(f"cannot write secrets to `{file}`: {(error.strerror or str(error)).lower()}") from error


def mark_whole(home: Path, run: RunId) -> None:
    """Note that everything a run needs is stored: until then nobody but the command that stores it may start it."""
    own = home / "runs" / run
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    (own / _WHOLE).touch()


def is_whole(home: Path, run: RunId) -> bool:
    """Whether everything a run needs is stored."""
    return (home / "runs" / run / _WHOLE).exists()


def remove(home: Path, run: RunId, successor: RunId | None) -> None:
    """Remove the secrets, Ray's keys and the files of a run; its successor gets secrets and files.

    StoreError where that fails.
    """
    own = home / "runs" / run
    try:
        for name in ("token", "key", "tls"):  # the next run makes its own
            _remove(own / name, None)
        for path in (
            secrets_file(home, run),
            own / "files",
            *own.glob("wheels-*"),
            *own.glob("rclone-*"),
            *own.glob("images-*"),
            own / "image-identities",
            *own.glob(".snapshot-*"),
        ):
            _remove(path, None if successor is None else home / "runs" / successor)
    except OSError as error:
        what = f"cannot use `{home / 'runs'}`: {(error.strerror or str(error)).lower()}"
        raise StoreError(what, hints=("free space on its disk, and check that you may write there",)) from error


def _remove(path: Path, target: Path | None) -> None:
    if target is not None and path.exists():
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.replace(target / path.name)
    elif path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
