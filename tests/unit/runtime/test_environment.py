"""The variables of programs that Linux has to start with them, at the size of the largest fleets."""

import errno
import importlib
import json
import os
import re
import subprocess
import zlib
from pathlib import Path

import pytest

from launcher.runtime.protocol_files import Variables

command = importlib.import_module("launcher.runtime.command")
environment = importlib.import_module("launcher.runtime.environment")
shared = importlib.import_module("launcher.runtime.shared")

NODES = 9_984
ADDRESSES = "\n".join(f"10.100.{at // 250}.{100 + at % 250 // 2}" for at in range(NODES))
SLICES = json.dumps([{"nodes": [{"name": f"r{at}", "labels": {"nvlaunch.io/slot": "x" * 250}} for at in range(NODES)]}])


def variables(folder: Path, addresses: dict[str, str], **own: str) -> Variables:
    """The variables of a rank of `main`, whose node has the document that they refer to."""
    document = {"envs": {"main": {"STEPS": "7"}}, "addresses": addresses}
    shared.keep(folder, "abc", lambda: zlib.compress(json.dumps(document).encode()))
    lists = {f"NVLAUNCH_GROUP_{group.upper()}_IPS": group for group in addresses if group != "main"}
    lists |= {"NVLAUNCH_NODE_IPS": "main", "SKYPILOT_NODE_IPS": "main"}
    return {"shared": "abc", "group": "main", "node": {}, "own": own, "addresses": lists}


def seen(env: dict[str, str]) -> dict[str, str]:
    """What a program sees that Linux starts with these variables."""
    listed = subprocess.run(["/usr/bin/env", "-0"], env=env, capture_output=True, text=True, check=True).stdout
    return dict(item.partition("=")[::2] for item in listed.split("\0") if item)


def test_lists_are_variables_and_files(tmp_path: Path) -> None:
    found = seen(environment.whole(tmp_path, variables(tmp_path, {"main": "a\nb", "side": "c"}, NVLAUNCH_SLICES="[]")))
    files = {name: Path(path).read_text() for name, path in found.items() if name.endswith("_FILE")}
    lists = {"NVLAUNCH_NODE_IPS": "a\nb", "NVLAUNCH_GROUP_SIDE_IPS": "c", "NVLAUNCH_SLICES": "[]"}
    assert files == {f"{name}_FILE": value for name, value in lists.items()}
    assert Path(found.pop("NVLAUNCH_HOSTFILE")).read_text() == "a slots=1\nb slots=1\n"
    assert found == {"STEPS": "7", "SKYPILOT_NODE_IPS": "a\nb", **lists, **{name: found[name] for name in files}}


def test_the_hostfile_has_a_line_for_each_node_in_rank_order_and_follows_a_new_node(tmp_path: Path) -> None:
    given = variables(tmp_path, {"main": "10.0.0.2\n10.0.0.1\nfd00::7"}, NVLAUNCH_NUM_GPUS_PER_NODE="4")
    file = Path(environment.own(tmp_path, given)["NVLAUNCH_HOSTFILE"])
    hosts = [re.fullmatch(r"(\S+)\s+slots=(\d+)", line) for line in file.read_text().splitlines()]  # as DeepSpeed reads
    found = [host.groups() for host in hosts if host]
    assert found == [("10.0.0.2", "4"), ("10.0.0.1", "4"), ("fd00::7", "4")]
    (tmp_path / "shared" / "abc").unlink()
    given = variables(tmp_path, {"main": "10.0.0.9\n10.0.0.1"}, NVLAUNCH_NUM_GPUS_PER_NODE="4")
    assert Path(environment.own(tmp_path, given)["NVLAUNCH_HOSTFILE"]).read_text().startswith("10.0.0.9 slots=4\n")


def test_a_setup_has_no_hostfile_for_its_rank_is_not_certain_yet(tmp_path: Path) -> None:
    given = variables(tmp_path, {"main": "a"})
    given["addresses"] = {"SKYPILOT_SETUP_NODE_IPS": "main"}
    assert "NVLAUNCH_HOSTFILE" not in environment.own(tmp_path, given)


def test_a_program_starts_with_the_lists_of_the_largest_fleet_in_files(tmp_path: Path) -> None:
    with pytest.raises(OSError) as refused:
        seen({"NVLAUNCH_NODE_IPS": ADDRESSES})
    assert refused.value.errno == errno.E2BIG, "the limit that this is about"
    found = seen(environment.whole(tmp_path, variables(tmp_path, {"main": ADDRESSES}, NVLAUNCH_SLICES=SLICES)))
    assert found.keys() == {"STEPS", "NVLAUNCH_NODE_IPS_FILE", "NVLAUNCH_SLICES_FILE", "NVLAUNCH_HOSTFILE"}
    assert Path(found["NVLAUNCH_NODE_IPS_FILE"]).read_text() == ADDRESSES
    assert Path(found["NVLAUNCH_SLICES_FILE"]).read_text() == SLICES


def test_a_program_starts_where_all_lists_together_are_too_long(tmp_path: Path) -> None:
    each = "x" * environment.MAX_LIST
    groups = {f"g{at}": f"{at}{each[3:]}" for at in range(20)}
    assert 20 * len(each) > os.sysconf("SC_ARG_MAX")
    found = seen(environment.whole(tmp_path, variables(tmp_path, {"main": "a", **groups})))
    assert found["NVLAUNCH_NODE_IPS"] == found["SKYPILOT_NODE_IPS"] == "a", "short lists stay"
    assert sum(len(value) for value in found.values()) < environment.MAX_LISTS + 10_000
    assert Path(found["NVLAUNCH_GROUP_G19_IPS_FILE"]).read_text() == groups["g19"]


def test_a_command_on_a_node_where_no_rank_began_starts_too(tmp_path: Path) -> None:
    found = command.variables(tmp_path, "", {"SKYPILOT_SETUP_NODE_IPS": ADDRESSES, "A": "1"}, {"HOME": "/root"})
    assert seen(found) == {"A": "1", "HOME": "/root"}


def test_a_list_is_written_once(tmp_path: Path) -> None:
    given = variables(tmp_path, {"main": "a"})
    (first,) = {environment.own(tmp_path, given)["NVLAUNCH_NODE_IPS_FILE"] for _ in range(3)}
    assert Path(first).stat().st_mode & 0o777 == 0o600


def test_workers_of_a_driver_have_the_users_environment_with_rays_python_first() -> None:
    mine = {
        "PATH": "/ray/bin:/usr/bin",
        "HOME": "/tmp/nvl",
        "PYTHONPATH": "/run",
        "RAY_x": "1",
        "NVLAUNCH_FOLDER": "/run",
    }
    user = {"PATH": "/home/me/bin", "HOME": "/home/me", "PYTHONPATH": "/home/me/lib", "RAY_x": "2", "TOKEN": "t"}
    assert environment.workers(mine, {**user, "CUDA_VISIBLE_DEVICES": "0"}) == {
        "PATH": "/ray/bin:/home/me/bin",
        "HOME": "/home/me",
        "PYTHONPATH": "/run:/home/me/lib",
        "RAY_x": "1",
        "NVLAUNCH_FOLDER": "/run",
        "TOKEN": "t",
    }


def test_a_rank_sees_the_secrets_that_its_group_declares() -> None:
    secrets = {"A": "1", "B": "2"}
    assert environment.declared(secrets, ["B", "C"]) == {"B": "2"}
    assert environment.declared(secrets, None) == secrets, "a launcher of before names none"
