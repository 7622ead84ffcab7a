"""enroot and Apptainer by stand-ins: their command lines, and what nvlaunch keeps itself of containers and images."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.runtime import procs
from launcher.runtime.containers import registry
from launcher.runtime.containers.apptainer import Apptainer
from launcher.runtime.containers.engines import Creation, EngineError
from launcher.runtime.containers.enroot import Enroot
from launcher.runtime.containers.images import said
from launcher.runtime.containers.unprivileged import FileEngine
from tests.containers.registry import Registry
from tests.unit.runtime import stand_ins

DIGEST = "sha256:" + "1" * 64
WAIT = 'trap "exit 0" TERM; while :; do read -r line <"$1"; done'


@pytest.fixture(params=["enroot", "apptainer"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FileEngine]:
    yield from made(request.param, tmp_path)


@pytest.fixture
def enroot(tmp_path: Path) -> Iterator[FileEngine]:
    yield from made("enroot", tmp_path)


@pytest.fixture
def apptainer(tmp_path: Path) -> Iterator[FileEngine]:
    yield from made("apptainer", tmp_path)


def made(name: str, tmp_path: Path) -> Iterator[FileEngine]:
    stand_ins.put(tmp_path, name)
    (tmp_path / "digest").write_text(DIGEST)
    (tmp_path / "containers").mkdir()
    os.mkfifo(tmp_path / "hold")
    path = f"{tmp_path}:{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(tmp_path / "home"), "APPTAINER_TMPDIR": str(tmp_path)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path)
        one = {"enroot": Enroot, "apptainer": Apptainer}[name](env)
        yield one
        one.remove("r", "n1", 10)


def lines(tmp_path: Path) -> list[list[str]]:
    return [json.loads(line) for line in (tmp_path / "said").read_text().splitlines()]


def asked(tmp_path: Path, image: str, **changed: object) -> Creation:
    base = Creation(
        name="nvl-1-main",
        image=image,
        run="r",
        place="n1",
        group="main",
        mark="r:n1:container",
        user=f"{os.geteuid()}:{os.getegid()}",
        groups=(),
        program=("sh", "-c", WAIT, "nvlaunch", str(tmp_path / "hold")),
        mounts=(("/tmp", "/tmp", False), (str(tmp_path), "/in", True)),
        followed=frozenset(),
        limits=(),
        devices=(),
        gpus=True,
        options=(),
    )
    return replace(base, **changed)  # type: ignore[arg-type]


def archive(engine: FileEngine, tmp_path: Path, content: str = "bytes") -> str:
    path = tmp_path / f"box{engine.SUFFIXES[0]}"
    path.write_text(content)
    return engine.load(str(path), 10)


def until(path: Path) -> str:
    deadline = time.monotonic() + 10
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return path.read_text()


def test_a_container_is_made_entered_started_again_and_removed(engine: FileEngine, tmp_path: Path) -> None:
    creation = asked(tmp_path, archive(engine, tmp_path))
    engine.create(creation)
    name = creation.name
    pid = engine.process(name)[0]
    assert procs.variable(pid, "NVLAUNCH_MARK") == "r:n1:container"
    assert procs.variable(pid, "OF_THE_IMAGE") == "1"

    script = "echo $NVLAUNCH_MARK $OF_THE_IMAGE; echo whole"
    command = engine.enter(name, ["sh", "-c", script], {"NVLAUNCH_MARK": "r:n1:7:rank"})
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "r:n1:7:rank 1\nwhole\n"

    os.kill(pid, 9)
    assert procs.await_end([found for one in [pid] if (found := procs.find(one))], 10)
    assert engine.process(name)[0] == 0
    with pytest.raises(EngineError, match="does not run"):
        engine.enter(name, ["true"], {})
    assert engine.start(name)
    assert engine.process(name)[0] not in (0, pid)

    assert engine.remove("other", "n1", 10) == []
    assert engine.process(name)[0]
    pid = engine.process(name)[0]
    assert engine.remove("r", "n1", 10) == []
    assert procs.find(pid) is None
    assert not engine.start(name)
    assert list(engine.images.iterdir())  # images stay


def test_nobody_waits_for_a_program_with_a_log(engine: FileEngine, tmp_path: Path) -> None:
    creation = asked(tmp_path, archive(engine, tmp_path))
    engine.create(creation)
    name = creation.name
    (tmp_path / "gate").touch()
    script = f"while [ -e {tmp_path}/gate ]; do sleep 0.05; done; echo done >{tmp_path}/end"
    command = engine.enter(name, ["sh", "-c", script], {}, log=str(tmp_path / "log"))
    subprocess.run(command, capture_output=True, check=True, timeout=10)
    assert not (tmp_path / "end").exists()
    (tmp_path / "gate").unlink()
    assert until(tmp_path / "end") == "done\n"
    engine.remove("r", "n1", 10)
    with pytest.raises(EngineError):
        engine.enter(name, ["true"], {}, log=str(tmp_path / "log"))


def test_a_container_that_does_not_start_says_why_and_is_gone(engine: FileEngine, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"/bin/sh: no such file"):
        engine.create(asked(tmp_path, archive(engine, tmp_path, "empty")))
    assert engine.remove("r", "n1", 10) == []
    assert not engine.start("nvl-1-main")


def test_an_image_of_a_registry_is_fetched_once_by_its_digest(enroot: FileEngine, tmp_path: Path) -> None:
    assert enroot.local("nvcr.io/nvidia/box:1") is None
    enroot.pull("nvcr.io/nvidia/box:1", lambda _: None, 10)
    assert enroot.local("nvcr.io/nvidia/box:1") == (DIGEST, DIGEST)
    assert enroot.local(f"nvcr.io/nvidia/box@{DIGEST}") == (DIGEST, DIGEST)
    enroot.pull(f"nvcr.io/nvidia/box@{DIGEST}", lambda _: None, 10)
    told = lines(tmp_path)
    assert told[0] == ["digest", "docker://nvcr.io#nvidia/box:1"]
    assert [one[-1] for one in told[1:]] == [f"docker://nvcr.io#nvidia/box:{DIGEST}"]
    # What a tag means is asked again by the next run.
    assert Enroot(dict(enroot.client.env)).local("nvcr.io/nvidia/box:1") is None


def test_apptainer_asks_the_registry_itself(apptainer: FileEngine, tmp_path: Path) -> None:
    with_tags = Registry()
    layer = tmp_path / "layer"
    layer.write_bytes(b"x")
    digest = with_tags.put("1", layer)
    image = f"{with_tags.address}/box:1"
    apptainer.pull(image, lambda _: None, 10)
    assert apptainer.local(image) == (digest, digest)
    assert lines(tmp_path)[-1][-1] == f"docker://{with_tags.address}/box@{digest}"
    with pytest.raises(EngineError, match="manifest unknown"):
        apptainer.pull(f"{with_tags.address}/box:other", lambda _: None, 10)


def test_an_archive_is_known_by_its_content_and_not_copied(engine: FileEngine, tmp_path: Path) -> None:
    identity = archive(engine, tmp_path)
    assert engine.local(identity) == (identity, "")
    (link,) = (path for path in engine.images.iterdir() if path.name.startswith("sha256"))
    assert link.is_symlink()
    assert archive(engine, tmp_path, "others") != identity
    with pytest.raises(EngineError, match="ends with"):
        engine.load(str(tmp_path / "box.tar"), 10)


def test_the_options_of_enroot(enroot: FileEngine, tmp_path: Path) -> None:
    words = " ".join(enroot.words("nvl-1-main", asked(tmp_path, DIGEST)))
    assert words.startswith("--rw --rc ")
    assert f"--mount {tmp_path}:/in:none:x-create=auto,rbind,ro" in words
    assert "--env NVIDIA_VISIBLE_DEVICES=all --env NVIDIA_DRIVER_CAPABILITIES=all" in words
    assert words.endswith(" nvl-1-main")
    assert "NVIDIA_VISIBLE_DEVICES=void" in enroot.words("x", asked(tmp_path, DIGEST, gpus=False))
    with pytest.raises(EngineError, match="colon or a blank"):
        enroot.words("x", asked(tmp_path, DIGEST, mounts=(("/a b", "/a", False),)))


def test_the_options_of_apptainer(apptainer: FileEngine, tmp_path: Path) -> None:
    words = " ".join(apptainer.words("nvl-1-main", asked(tmp_path, DIGEST)))
    assert words.startswith("--writable --cleanenv --no-home --no-mount tmp,cwd")
    assert f"--mount type=bind,source={tmp_path},destination=/in,ro --nv" in words
    assert words.endswith(f"nvlaunch-{os.geteuid()}/nvl-1-main")


def test_mounts_are_made_in_the_folder_of_an_image_and_never_outside(apptainer: FileEngine, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    image = archive(apptainer, tmp_path, f"out -> {tmp_path}/elsewhere")
    mounts = (("/tmp", "/out/in", False), ("/tmp", "/a/b", False), ("/etc/hostname", "/a/name", True))
    apptainer.create(asked(tmp_path, image, mounts=mounts))
    assert not list((tmp_path / "elsewhere").iterdir())
    inside = tmp_path / f"nvlaunch-{os.geteuid()}" / "nvl-1-main"
    assert (inside / "a/b").is_dir()
    assert (inside / "a/name").is_file()
    assert (inside / "usr/bin/nvidia-smi").is_file()
    apptainer.remove("r", "n1", 10)
    assert not inside.exists()


@pytest.mark.parametrize("program", ["enroot", "apptainer"])
def test_a_user_of_the_image_is_refused(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    one = {"enroot": Enroot, "apptainer": Apptainer}[program]({"HOME": str(tmp_path)})
    with pytest.raises(EngineError, match=r"not as `ann`"):
        one.words("x", asked(tmp_path, DIGEST, user="ann"))


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("ubuntu", ("", "ubuntu", "latest")),
        ("docker.io/library/ubuntu:24.04", ("", "library/ubuntu", "24.04")),
        ("nvcr.io#nvidia/pytorch:25.05-py3", ("nvcr.io", "nvidia/pytorch", "25.05-py3")),
        ("host:5000/a/b", ("host:5000", "a/b", "latest")),
        (f"host:5000/a/b:1@{DIGEST}", ("host:5000", "a/b", DIGEST)),
    ],
)
def test_an_image_is_a_registry_a_repository_and_a_version(image: str, parts: tuple[str, str, str]) -> None:
    assert registry.split(image) == parts


@pytest.mark.parametrize(
    ("program", "words"),
    [("enroot", "write `machine nvcr.io login"), ("apptainer", "`apptainer registry login docker://nvcr.io`")],
)
def test_where_a_login_is_written(program: str, words: str) -> None:
    assert words in said(EngineError("unauthorized (401)"), program, "nvcr.io/x:1")
