"""What is said while files arrive at a node."""

import importlib
import io
import json
import sys
import zlib
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

stage = importlib.import_module("launcher.runtime.stage")
unpack = importlib.import_module("launcher.runtime.unpack")


def test_files_that_take_a_while_say_how_many_bytes_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = [b"a" * 3_000_000, b"b" * 1_000_000]
    entries = [["f", f"f{number}", 0o644, 0, number] for number in range(2)]
    hashes = [sha256(one).hexdigest() for one in contents]
    manifest = {"trees": [{"to": "", "entries": entries}], "hashes": hashes, "sizes": [len(one) for one in contents]}
    (tmp_path / "runs").mkdir()
    unpacking = unpack.Unpacking(tmp_path, "workdir")
    source = io.BytesIO(zlib.compress(json.dumps(manifest).encode()))
    assert unpacking.plan(tmp_path / "runs", "n1", source) == {"ok": True, "missing": [0, 1]}
    (tmp_path / ".workdir.partial" / "contents" / "1").write_bytes(contents[1])  # of a former run
    sent = unpack.HEAD.pack(0, 1, len(zlib.compress(contents[0]))) + zlib.compress(contents[0])
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(sent + unpack.HEAD.pack(unpack.END, 0, 0))))
    now, noted = [0.0], []

    def later() -> float:
        noted.append(stage.read(tmp_path))
        now[0] += 1.5
        return now[0]

    monkeypatch.setattr(stage.time, "monotonic", later)
    assert unpacking.fill() == {"ok": True}
    assert noted[1] == stage.Stage()  # at first, nothing is said
    assert stage.read(tmp_path) in (("copying files", 2097152, 3000000), ("copying files", 3000000, 3000000))
    assert (tmp_path / "workdir" / "f0").read_bytes() == contents[0]
    (tmp_path / "stage").write_text("copying")
    assert stage.read(tmp_path) == stage.Stage(message="copying")
    stage.write(tmp_path, "")
    assert stage.read(tmp_path) == stage.Stage()
