"""Containers on a node: command lines of engines, what their messages mean, images, variables."""

import json
import os
import signal
import subprocess
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.runtime import files, procs, rpc, setups, shared
from launcher.runtime.containers import image_ray, keep
from launcher.runtime.containers.docker import Docker, repository
from launcher.runtime.containers.engines import Creation, EngineError, variables
from launcher.runtime.containers.enter import variables_text
from launcher.runtime.containers.fixed_images import FixedImages
from launcher.runtime.containers.images import NodeImage, said
from launcher.runtime.containers.keep import MADE_OF, Containers
from launcher.runtime.containers.podman import Podman
from launcher.runtime.protocol_containers import ContainerSpec

ASKED = Creation(
    name="nvl-1-main",
    image="box@sha256:1",
    run="r",
    place="n1",
    group="main",
    mark="r:n1:container",
    user="1000:1000",
    groups=(44,),
    program=("sh", "-c", "wait", "name", "/hold"),
    mounts=(("/run-folder", "/run-folder", False), ("/data", "/in", True)),
    followed=frozenset(["/run-folder"]),
    limits=(("memlock", -1, -1),),
    devices=("/dev/infiniband",),
    gpus=True,
    options=("--cap-add=SYS_PTRACE",),
)
DIGEST, OTHER, ID = ("sha256:" + letter * 64 for letter in "123")


def test_docker_makes_a_container_that_shares_the_node() -> None:
    words = " ".join(Docker({}).creation(ASKED))
    assert words.startswith(
        "run --detach --name nvl-1-main --pull never --label nvlaunch.run=r --label nvlaunch.place=n1"
    )
    for part in (
        "--network host --ipc host --pid host --user 1000:1000 --env NVLAUNCH_MARK=r:n1:container --entrypoint sh",
        "--group-add 44 --ulimit memlock=-1:-1",
        "--mount type=bind,source=/run-folder,target=/run-folder,bind-propagation=rslave",
        "--mount type=bind,source=/data,target=/in,readonly --device /dev/infiniband --gpus all --cap-add=SYS_PTRACE",
    ):
        assert part in words
    assert words.endswith("box@sha256:1 -c wait name /hold")


MOUNTINFO = """22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:5 / /dev rw - devtmpfs none rw
30 22 0:40 / /data\\040disk rw master:7 - nfs4 server:/x rw
31 22 0:41 / /own rw - tmpfs none rw
"""


def test_later_mounts_are_followed_where_the_node_tells_of_them() -> None:
    paths = ["/home/u/run", "/data disk/run", "/own/run", "/dev/shm/run"]
    assert keep.propagating(MOUNTINFO, paths) == {"/home/u/run", "/data disk/run"}
    assert keep.propagating("", paths) == frozenset()


def test_podman_takes_gpus_by_cdi_and_keeps_the_user_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    words = " ".join(Podman({}).creation(ASKED))
    assert "--userns keep-id --user 1000:1000" in words
    assert "--device nvidia.com/gpu=all" in words
    assert "--group-add" not in words
    assert "--userns" not in " ".join(Podman({}).creation(replace(ASKED, user="root")))


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("ubuntu:24.04", "ubuntu"),
        ("host:5000/a/b:1@sha256:0", "host:5000/a/b"),
        ("host:5000/a", "host:5000/a"),
    ],
)
def test_the_repository_of_an_image_has_neither_tag_nor_digest(image: str, name: str) -> None:
    assert repository(image) == name


@pytest.mark.parametrize(
    ("message", "meaning"),
    [
        ("manifest for x/y:1 not found: manifest unknown: manifest unknown", "the registry has no such image or tag"),
        (
            "Head https://nvcr.io/v2/x: unauthorized: authentication required",
            "the registry wants a login: run `docker login nvcr.io` on the node",
        ),
        ("pull access denied for x, repository does not exist or may require 'docker login'", "wants a login"),
        ("toomanyrequests: You have reached your pull rate limit", "the registry's rate limit is reached"),
        ("write /var/lib/docker/tmp/x: no space left on device", "no space left on device"),
        ("dial tcp: lookup nvcr.io: no such host", "the registry cannot be reached from the node"),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock", "the engine does not answer this user"),
    ],
)
def test_a_message_of_an_engine_is_given_its_meaning(message: str, meaning: str) -> None:
    assert meaning in said(EngineError(message), "docker", "nvcr.io/x:1")


def test_clients_get_what_says_where_the_engine_is_and_nothing_else() -> None:
    found = variables({"DOCKER_HOST": "unix:///s", "HOME": "/h", "PATH": "/a", "TOKEN": "hush", "LD_PRELOAD": "x"})
    assert (found["DOCKER_HOST"], found["HOME"], found["PATH"].split(":")[0]) == ("unix:///s", "/h", "/a")
    assert not {"TOKEN", "LD_PRELOAD"} & found.keys()


def test_variables_come_back_byte_for_byte() -> None:
    value = "a'b\"c $HOME `id` \\\n\n two\t\u00fc\udcff" + "x" * 100_000
    text = variables_text({"ODD": value, "not-a-name": "1", "\u00fcber": "1"}, 0o027)
    done = subprocess.run(
        [
            "sh",
            "-c",
            f'{text.decode(errors="surrogateescape")} printf %s "$ODD"; umask'.encode(errors="surrogateescape"),
        ],
        capture_output=True,
        check=True,
    )
    assert done.stdout == value.encode(errors="surrogateescape") + b"0027\n"


def client_that_says(folder: Path, script: str) -> Docker:
    """Return Docker with this client; what it is asked is in the file `asked`."""
    program = folder / "docker"
    program.write_text(f'#!/bin/sh\necho "$@" >>{folder}/asked\n{script}\n')
    program.chmod(0o700)
    return Docker(variables({"PATH": str(folder)}))


@pytest.mark.parametrize("answer", ["", "[]", "{}", "[7]", '[{"RepoDigests": 7}]', '[{"Id": "a", "RepoDigests": 7}]'])
def test_an_odd_answer_of_an_engine_is_its_error(tmp_path: Path, answer: str) -> None:
    docker = client_that_says(tmp_path, f"echo '{answer}'")
    with pytest.raises(EngineError, match="odd answer"):
        docker.local("box")
    with pytest.raises(EngineError, match="odd answer"):
        docker.process("nvl-1-main")


def test_a_container_that_cannot_be_made_takes_no_other_along(tmp_path: Path) -> None:
    client_that_says(
        tmp_path,
        f"""case $1 in
        image) echo '[{{"Id": "{ID}"}}]' ;;
        run) echo no such device >&2; exit 125 ;;
    esac""",
    )
    agent: Any = {"scratch": str(tmp_path / "nvl-1"), "run": "r", "place": "n1", "socket": str(tmp_path / "s")}
    (tmp_path / "nvl-1").mkdir()
    files.write(tmp_path / MADE_OF, {"other": ID})
    images = FixedImages()
    images.fix({"a/box:1": f"id:{ID}"})
    rpc.serve(tmp_path / "s", images.asked)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="cannot make a container of `a/box:1`: no such device"):
        Containers(tmp_path, agent, {"PATH": str(tmp_path)}).running(SPEC)
    assert (tmp_path / "asked").read_text().splitlines()[-1] == "rm --force --volumes nvl-1-main"
    assert files.read(tmp_path / MADE_OF) == {"other": ID, "main": ID}


def test_a_command_makes_no_container_in_which_setup_has_not_run(tmp_path: Path) -> None:
    client_that_says(tmp_path, "echo no such container >&2; exit 1")
    agent: Any = {"scratch": str(tmp_path / "nvl-1"), "run": "r", "place": "n1", "socket": str(tmp_path / "s")}
    (tmp_path / "nvl-1").mkdir()
    files.write(tmp_path / MADE_OF, {"main": ID})
    with pytest.raises(EngineError, match="the container is gone"):
        Containers(tmp_path, agent, {"PATH": str(tmp_path)}).running(SPEC, make=False)
    assert (tmp_path / "asked").read_text() == "start nvl-1-main\n"


# A client whose container is a process of this machine: what is run in it runs here.
CONTAINER_HERE = f"""case $1 in
    image) echo '[{{"Id": "{ID}"}}]' ;;
    run) sleep 60 >/dev/null 2>&1 & echo $! >"$HOME/pid"; echo "$(cat "$HOME/n" 2>/dev/null)1" >"$HOME/n" ;;
    inspect) printf '%s %064d\n' "$(cat "$HOME/pid")" "$(cat "$HOME/n")" ;;
    start) echo no such container >&2; exit 1 ;;
    exec) while [ "$1" != nvl-1-main ]; do shift; done; shift; setsid "$@" & ;;
esac"""


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    """The folder of a run with an agent, and a container whose setup counts how often it runs."""
    client_that_says(tmp_path, CONTAINER_HERE)
    scratch = tmp_path / "nvl-1"
    scratch.mkdir()
    (tmp_path / "workdir").mkdir()
    agent = {"scratch": str(scratch), "run": "r", "place": "n1", "socket": str(tmp_path / "s"), "ray": "2.60"}
    files.write(tmp_path / "agent.json", agent)
    images = FixedImages()
    images.fix({"a/box:1": f"id:{ID}"})
    base = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    given = {"ok": True, "base": base, "secrets": str(scratch / "secrets.json")}
    rpc.serve(tmp_path / "s", lambda asked: given if asked["op"] == "environment" else images.asked(asked))  # type: ignore[arg-type]
    (tmp_path / "setup.sh").write_text(f"echo ran >>{tmp_path}/ran\n")
    shared.keep(tmp_path, "abc", lambda: zlib.compress(json.dumps({"envs": {"main": {}}, "addresses": {}}).encode()))
    variables = {"shared": "abc", "group": "main", "node": {}, "own": {}, "addresses": {}}
    files.write(tmp_path / setups.SETUPS, {"setups": [{"script": "setup.sh", "variables": variables}]})
    yield tmp_path
    for state in keep.states(str(scratch)):
        os.kill(state["pid"], signal.SIGKILL)


def ran(folder: Path) -> int:
    """How often setup ran."""
    return len((folder / "ran").read_text().split()) if (folder / "ran").exists() else 0


def test_setup_runs_in_a_container_whose_first_setup_was_killed_and_once_in_each(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVLAUNCH_MARK", "r:n1:setup")
    base = {"PATH": f"{here}:/usr/bin:/bin", "HOME": str(here)}
    agent = files.agent_spec(here)
    assert agent is not None
    Containers(here, agent, base).running(SPEC)  # and what would have run setup is killed here
    state, _ = setups.ready(here, SPEC, here / "log")
    assert ran(here) == 1
    assert setups.ready(here, SPEC, here / "log")[0] == state
    assert ran(here) == 1
    os.kill(state["pid"], signal.SIGKILL)  # and its container is removed
    procs.await_end([procs.ProcessId(state["pid"], 0, state["start"])], 5.0)
    assert setups.ready(here, SPEC, here / "log")[0]["id"] != state["id"]
    assert ran(here) == 2


def test_a_client_that_writes_without_end_is_an_error_and_fills_no_memory(tmp_path: Path) -> None:
    docker = client_that_says(tmp_path, 'head -c 30000000 /dev/zero | tr "\\0" x >&2; echo >&2; echo last >&2; exit 1')
    with pytest.raises(EngineError, match=r"^last$"):
        docker.client.run("version")
    endless = client_that_says(tmp_path, "cat /dev/zero")
    with pytest.raises(EngineError, match="writes more than"):
        endless.client.run("version")
    with pytest.raises(EngineError, match="has not answered within 0 s"):
        client_that_says(tmp_path, "exec sleep 60").client.run("version", seconds=0.2)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ([], "no Python of `verl:1` has Ray, and a `driver:` needs Ray 2.60"),
        (["/opt/python3", "3.12.3", "2.47.1"], "`verl:1` has Ray 2.47.1, and a `driver:` needs 2.60"),
        (["/opt/python3", "3.9.3", "2.60.0"], "`verl:1` has Python 3.9.3 with its Ray, and a `driver:` needs 3.10"),
        (["/opt/python3", "odd", "odd"], "has Ray odd"),
    ],
)
def test_an_image_without_a_ray_for_drivers_is_refused_with_both_versions(told: list[str], said: str) -> None:
    with pytest.raises(EngineError) as error:
        image_ray.fitting(told, "verl:1", "2.60")
    assert said in str(error.value)
    assert "write `run:` instead" in str(error.value)


@pytest.mark.parametrize("version", ["2.60.0", "2.61.3", "3.0.0rc1"])
def test_an_image_with_a_later_ray_is_taken(version: str) -> None:
    assert image_ray.fitting(["/opt/python3", "3.12.3", version], "verl:1", "2.60") == "/opt/python3"


def test_a_part_of_ray_inside_has_what_is_of_ray_and_of_the_task_and_no_gpus_of_its_own() -> None:
    mine = {
        "PATH": "/host",
        "PYTHONPATH": "/host",
        "HOME": "/h",
        "USER": "u",
        "LANG": "C",
        "RAY_X": "1",
        "NVLAUNCH_F": "f",
    }
    found = image_ray.variables(mine, {"A": "1", "RAY_X": "2", "CUDA_VISIBLE_DEVICES": "0"})
    assert found == {"USER": "u", "LANG": "C", "RAY_X": "1", "NVLAUNCH_F": "f", "A": "1"}


class Engine:
    """An engine with these images by name, and a registry that has others."""

    def __init__(self, here: dict[str, tuple[str, str]], registry: dict[str, tuple[str, str]]) -> None:
        self.here = here
        self.registry = registry
        self.pulled: list[str] = []

    def local(self, image: str) -> tuple[str, str] | None:
        return self.here.get(image)

    def pull(self, image: str, stage: Callable[[str], None], seconds: float) -> None:
        self.pulled.append(image)
        if image not in self.registry:
            raise EngineError("manifest unknown")
        self.here[image] = self.registry[image]


SPEC: ContainerSpec = {
    "group": "main",
    "engine": "docker",
    "image": "a/box:1",
    "archive": False,
    "options": [],
    "mounts": [],
    "shared": [],
    "workdir": None,
    "user": None,
    "gpus": False,
    "fence": False,
    "ray": False,
}


def made_of(tmp_path: Path, engine: Any, fixed: str = "", first: str = "") -> str:
    """What a container is made of, where the run has fixed a content before, or fixes one once it is asked."""
    images = FixedImages()
    images.fix({"a/box:1": fixed} if fixed else {})

    def answer(request: dict[str, Any]) -> Any:
        if request["found"]:
            images.fix({"a/box:1": first or request["found"]})
        return images.asked(request)  # type: ignore[arg-type]

    socket = tmp_path / "s"
    rpc.serve(socket, answer)
    return NodeImage(SPEC, engine, tmp_path, socket, lambda _: None).ready()


def test_the_first_node_fixes_the_digest(tmp_path: Path) -> None:
    engine = Engine({}, {"a/box:1": (ID, DIGEST)})
    assert made_of(tmp_path, engine) == f"a/box@{DIGEST}"
    assert engine.pulled == ["a/box:1"]


def test_a_node_with_another_digest_pulls_that_of_the_run(tmp_path: Path) -> None:
    engine = Engine({}, {"a/box:1": (ID, OTHER), f"a/box@{DIGEST}": (ID, DIGEST)})
    assert made_of(tmp_path, engine, first=f"digest:{DIGEST}") == f"a/box@{DIGEST}"
    assert engine.pulled == ["a/box:1", f"a/box@{DIGEST}"]


def test_a_later_node_asks_for_the_digest_alone_and_only_if_it_lacks_it(tmp_path: Path) -> None:
    engine = Engine({}, {f"a/box@{DIGEST}": (ID, DIGEST)})
    assert made_of(tmp_path, engine, fixed=f"digest:{DIGEST}") == f"a/box@{DIGEST}"
    assert engine.pulled == [f"a/box@{DIGEST}"]
    again = Engine({f"a/box@{DIGEST}": (ID, DIGEST)}, {})
    assert made_of(tmp_path / "..", again, fixed=f"digest:{DIGEST}") == f"a/box@{DIGEST}"
    assert again.pulled == []


def test_an_image_without_a_registry_is_known_by_its_id_and_never_pulled(tmp_path: Path) -> None:
    engine = Engine({"a/box:1": (ID, "")}, {})
    assert made_of(tmp_path, engine) == ID
    assert engine.pulled == []


def test_an_image_that_differs_is_an_error_with_both_ids(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as error:
        made_of(tmp_path, Engine({"a/box:1": (ID, "")}, {}), fixed=f"id:{OTHER}")
    assert ID in str(error.value)
    assert OTHER in str(error.value)


def test_a_registry_that_fails_is_no_error_where_the_node_has_its_image(tmp_path: Path) -> None:
    assert made_of(tmp_path, Engine({"a/box:1": (ID, DIGEST)}, {})) == f"a/box@{DIGEST}"
    with pytest.raises(EngineError, match="the registry has no such image or tag"):
        made_of(tmp_path / "..", Engine({}, {}))


def test_what_is_fixed_never_changes_and_must_be_a_hash() -> None:
    images = FixedImages()
    images.fix({"a": "digest:evil/image", "b": f"digest:{DIGEST}"})
    images.fix({"b": f"digest:{OTHER}"})
    fixed = [images.asked({"op": "image", "protocol": 1, "image": name, "found": ""}) for name in "ab"]
    assert [one["identity"] for one in fixed] == ["", f"digest:{DIGEST}"]
