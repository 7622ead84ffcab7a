"""A machine without an agent, and without a file of ours: it is asked and cleared all the same."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from launcher.transport.agent.relay import FROM_MEMORY, from_memory
from launcher.transport.upload import bundle

relay = importlib.import_module("launcher.runtime.relay")
procs = importlib.import_module("launcher.runtime.procs")


def spec(tmp_path: Path) -> dict[str, Any]:
    return {
        "run": f"orphans-{os.getpid()}",
        "place": "n1",
        "scratch": str(tmp_path / "scratch"),
        "socket": str(tmp_path / "scratch" / "agent.sock"),
        "interpreter": None,
    }


def ask(tmp_path: Path, request: dict[str, Any]) -> dict[str, Any]:
    argv = [sys.executable, "-EsS", "-c", FROM_MEMORY, "orphans", "for", str(tmp_path / "missing")]
    stdin = json.dumps({"spec": spec(tmp_path), "request": request}).encode()
    done = subprocess.run(argv, input=from_memory(bundle.archive(), stdin), capture_output=True, cwd="/", timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return dict(json.loads(done.stdout))


def orphan(tmp_path: Path) -> "subprocess.Popen[bytes]":
    mark = f"{spec(tmp_path)['run']}:n1:0:main/1:1"
    return subprocess.Popen(["sleep", "600"], env={**os.environ, procs.MARK: mark})


def test_a_run_is_killed_and_released_without_a_file_on_the_machine(tmp_path: Path) -> None:
    left = orphan(tmp_path)
    try:
        assert ask(tmp_path, {"op": "status"})["leftovers"] == 1
        assert ask(tmp_path, {"op": "kill", "level": "rank", "member": "main/1", "attempt": 1}) == {
            "ok": True,
            "left": [],
        }
        assert left.wait(10) < 0
        assert ask(tmp_path, {"op": "stop"}) == {"ok": True, "left": []}
    finally:
        left.kill()
        left.wait()
    assert list(tmp_path.iterdir()) == []


def test_the_relay_does_it_by_itself_where_nothing_can_be_started(tmp_path: Path) -> None:
    (tmp_path / "agent.json").write_text(json.dumps(spec(tmp_path)))
    left = orphan(tmp_path)
    package = str(Path(relay.__file__).parent)
    asked = {"key": ["", "1"], "socket": "", "package": package, "root": str(tmp_path), "limit": 5.0}
    try:
        found = relay.PendingRequest({**asked, "question": {"op": "stop"}}).reply_here()
        assert found == {"answer": {"ok": True, "left": []}}
        assert left.wait(10) < 0
    finally:
        left.kill()
        left.wait()
    broken = relay.PendingRequest({**asked, "package": str(tmp_path / "none"), "question": {"op": "stop"}}).reply_here()
    assert "ModuleNotFoundError" in broken["message"]
