"""A node with a real agent in a folder of its own, and what a launcher asks of it; without Ray."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher.core.model.buckets import BucketMount, StorageSettings
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.runtime import fuse, mounts_file, procs, rpc
from launcher.runtime.protocol import PROTOCOL
from launcher.setup.buckets import buckets_spec
from launcher.setup.layout import PACKAGE
from launcher.transport.upload import bundle, rclone
from tests.real.buckets.store import KEY, SECRET, Store, wait_until

SECRETS = {"STORE_KEY": KEY, "STORE_SECRET": SECRET}


class AgentNode:
    """One place of a run. `mounts` are those of the task, by path."""

    def __init__(
        self, base: Path, store: Store, mounts: Mapping[str, BucketMount], *, run: str, place: str = "n1"
    ) -> None:
        self.run = run
        self.place = place
        self.folder = base / "runs" / self.run / place
        self.folder.mkdir(parents=True, mode=0o700)
        (self.folder / "log").mkdir()
        self.scratch = Path(tempfile.mkdtemp(prefix="nvl-b-"))
        settings = StorageSettings(endpoint=store.endpoint, access_key="STORE_KEY", secret_key="STORE_SECRET")
        groups = (Group(name="main", topology=TopologyRule(), run="true"),)
        task = Task(name="t", groups=groups, bucket_mounts=mounts, secrets=tuple(SECRETS))
        sent = rclone.hashes(rclone.programs(()))
        self.buckets = buckets_spec(task, {"s3": settings}, {}, sent)
        self._put(bundle.programs())
        self._put({"agent.json": (json.dumps(self._spec()).encode(), 0o600)})

    def _put(self, files: bundle.Files) -> None:
        for name, (content, mode) in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(mode)

    def _spec(self) -> dict[str, Any]:
        ports = {
            "starts": [31000],
            "pinned": 1,
            "locks": [str(self.scratch / "ports")],
            "holder": "test",
            "fixed": False,
        }
        return {
            "protocol": PROTOCOL,
            "run": self.run,
            "place": self.place,
            "holder": "test",
            "scratch": str(self.scratch),
            "socket": str(self.scratch / "agent.sock"),
            "lease": [],
            "ports": ports,
            "heartbeat": None,
            "self_stop": 3600.0,
            "population": 60.0,
            "abandoned": 600.0,
            "login": False,
            "nested": True,
            "ray": "2.60",
            "interpreter": None,
        }

    def program(self, *argv: str, stdin: str = "") -> dict[str, Any]:
        """The reply of a program on the node."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        ended = subprocess.run(
            [sys.executable, "-EsS", str(self.folder / PACKAGE), *argv],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            env=environ,
        )
        assert ended.stdout, ended.stderr
        return dict(json.loads(ended.stdout))

    def begin(self) -> dict[str, Any]:
        """Start the agent."""
        return self.program("agent_start", str(self.folder))

    def ask(self, **request: Any) -> dict[str, Any]:
        """The agent's reply."""
        return rpc.ask(self.scratch / "agent.sock", {"protocol": PROTOCOL, **request}, 60)

    def orphans(self, **request: Any) -> dict[str, Any]:
        """The reply of the machine, whose agent is gone."""
        return self.program("orphans", "ask", str(self.folder), stdin=json.dumps({"protocol": PROTOCOL, **request}))

    def prepare(self) -> dict[str, Any]:
        """Ask it to prepare, with what it needs."""
        request: dict[str, Any] = {
            "op": "prepare",
            "variables": None,
            "setups": [],
            "secrets": SECRETS,
            "workdir": False,
            "buckets": self.buckets,
        }
        reply = self.ask(**request)
        if reply.get("need") == "rclone":
            self.send_rclone(reply["machine"])
            reply = self.ask(**request)
        return reply

    def send_rclone(self, machine: str) -> None:
        """Put the program where the launcher unpacks it."""
        target = self.folder / "rclone" / "rclone"
        target.parent.mkdir()
        target.write_bytes(rclone.programs(())[machine].path.read_bytes())
        target.chmod(0o700)

    def setup(self) -> dict[str, Any]:
        """How setup stands."""
        return dict(self.ask(op="status")["setup"])

    def prepared(self, seconds: float = 90.0) -> dict[str, Any]:
        """Prepare the node to the end; how setup ended."""
        reply = self.prepare()
        assert reply["ok"], reply
        wait_until(lambda: self.setup()["phase"] in ("done", "failed"), seconds)
        return self.setup()

    def rows(self) -> list[Any]:
        """How its mounts stand."""
        found = mounts_file.read(self.folder)
        return [] if found is None else list(found["mounts"])

    def up(self) -> bool:
        """Whether all its mounts are up, by its own word."""
        rows = self.rows()
        return bool(rows) and all(row["up"] for row in rows)

    def mounted(self) -> list[str]:
        """The paths of the kernel's table of mounts that are its own."""
        return [one.path for one in fuse.of_run(self.run, self.place)]

    def pids(self, program: str) -> list[int]:
        """Its processes of a name, or whose arguments have the word."""
        found = []
        for process in procs.scan(procs.Scope(run=self.run, place=self.place)):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                line = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
                if program.encode() in (Path(f"/proc/{process.pid}/comm").read_bytes().strip(), *line):
                    found.append(process.pid)
        return found

    def agent(self) -> int:
        """The agent's process."""
        (one,) = procs.agents(self.run, self.place)
        return one.pid

    def stop(self) -> dict[str, Any]:
        """Stop it as `down` does, again while it says that it sends."""
        return self.program("orphans", "ask", str(self.folder), stdin='{"op": "stop"}')

    def clean(self) -> None:
        """End whatever is left."""
        procs.send(procs.agents(self.run, self.place), 9)
        procs.kill(procs.Scope(run=self.run, place=self.place), grace=0)
        fuse.clear(self.run, self.place)
