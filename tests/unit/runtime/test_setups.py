"""The setups of several groups on one node."""

import importlib
import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

rpc = importlib.import_module("launcher.runtime.rpc")
setups = importlib.import_module("launcher.runtime.setups")
shared = importlib.import_module("launcher.runtime.shared")
PACKAGE = Path(setups.__file__).parent


def test_an_agent_that_refuses_is_heard(tmp_path: Path) -> None:
    given = {"ok": False, "protocol": 1, "message": "request refused: another release"}
    rpc.serve(tmp_path / "agent.sock", lambda _: given)
    agent = {"run": "r", "place": "n", "scratch": str(tmp_path), "socket": str(tmp_path / "agent.sock")}
    (tmp_path / "agent.json").write_text(json.dumps(agent))
    env = {"PATH": "/bin:/usr/bin", "NVLAUNCH_MARK": "r:n:setup"}
    for program in ("setups", "bucket_setup"):
        argv = [sys.executable, "-EsS", str(PACKAGE), program, str(tmp_path)]
        done = subprocess.run(argv, capture_output=True, text=True, env=env)
        assert (done.returncode, done.stderr) != (0, "")
        assert "the run's agent refuses: request refused: another release" in done.stdout
        assert "Traceback" not in done.stderr


def run(folder: Path, envs: dict[str, dict[str, str]], scripts: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run the setups of groups, `scripts`, with the variables of each in `envs`, beside an agent."""
    (folder / "secrets.json").write_text(json.dumps({"TOKEN": "t", "OTHER": "o"}))
    given = {"ok": True, "base": {"PATH": "/bin:/usr/bin"}, "secrets": str(folder / "secrets.json"), "umask": 0o027}
    rpc.serve(folder / "agent.sock", lambda _: given)
    agent = {"run": "r", "place": "n", "scratch": str(folder), "socket": str(folder / "agent.sock")}
    (folder / "agent.json").write_text(json.dumps(agent))
    document = {"envs": envs, "addresses": {}}
    shared.keep(folder, "abc", lambda: zlib.compress(json.dumps(document).encode()))
    listed: list[dict[str, Any]] = []
    for group, text in scripts.items():
        (folder / f"{group}.setup.sh").write_text(text)
        own = {"NVLAUNCH_GROUP": group}
        variables = {"shared": "abc", "group": group, "node": {}, "own": own, "addresses": {}}
        secrets = ["TOKEN"] if group == "prefill" else ["OTHER"]
        listed.append({"script": f"{group}.setup.sh", "variables": variables, "secrets": secrets})
    (folder / setups.SETUPS).write_text(json.dumps({"setups": listed}))
    argv = [sys.executable, "-EsS", str(PACKAGE), "setups", str(folder)]
    return subprocess.run(
        argv, capture_output=True, text=True, env={"PATH": "/bin:/usr/bin", "NVLAUNCH_MARK": "r:n:setup"}
    )


def test_setups_run_one_after_the_other_each_with_its_own_variables(tmp_path: Path) -> None:
    scripts = {"prefill": "echo prefill ${A-none}", "decode": 'echo "$NVLAUNCH_GROUP $A"'}
    done = run(tmp_path, {"prefill": {}, "decode": {"A": "it's $HOME"}}, scripts)
    assert done.stdout == "prefill none\ndecode it's $HOME\n"


def test_a_setup_that_fails_keeps_the_others_from_running(tmp_path: Path) -> None:
    done = run(tmp_path, {"prefill": {}, "decode": {}}, {"prefill": "exit 7", "decode": "echo ran"})
    assert (done.returncode, done.stdout) == (7, "")
    assert run(tmp_path, {"prefill": {}}, {"prefill": "kill -TERM $$"}).returncode == 128 + 15


def test_a_setup_sees_the_secrets_of_its_own_group_and_the_umask_of_the_login(tmp_path: Path) -> None:
    script = 'echo "${TOKEN-none} ${OTHER-none} $(umask)"'
    done = run(tmp_path, {"prefill": {}, "decode": {}}, {"prefill": script, "decode": script})
    assert done.stdout == "t none 0027\nnone o 0027\n"
