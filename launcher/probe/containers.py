"""What a node has for containers: engines, where they keep images, NVIDIA's toolkit, logins to registries, FUSE."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from launcher.core.model.container import Engine
from launcher.probe.resources import Space, space_of
from launcher.probe.results import ProbeResult, ProbeResults, Unknown, decode, failure_of, read_object, string

ENGINE_COMMANDS: Mapping[Engine, Sequence[str]] = {
    Engine.DOCKER: ("docker", "version", "--format", "{{.Server.Version}}"),
    Engine.PODMAN: ("podman", "version", "--format", "{{.Client.Version}}"),
    Engine.ENROOT: ("enroot", "version"),
    Engine.APPTAINER: ("apptainer", "version"),
}
"""Commands that succeed where this user can use an engine; its daemon is asked, where it has one."""

INFO_COMMANDS: Mapping[Engine, Sequence[str]] = {
    Engine.DOCKER: ("docker", "info", "--format", "{{json .}}"),
    Engine.PODMAN: ("podman", "info", "--format", "json"),
}
"""Commands that tell how an engine is set up; slower, so asked for tasks with containers only."""

ENGINE_TIMEOUT = 10.0
"""Seconds for a daemon to answer."""

CONTAINER_HOST = "container host"
MAX_NAMES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """How an engine is set up. `root` is the folder of its images, `runtimes` are the names of those that it knows."""

    version: str = ""
    root: str = ""
    rootless: bool = False
    runtimes: tuple[str, ...] = ()
    space: Space | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fuse:
    """Whether this user can mount with FUSE, and let other users see what is mounted."""

    device: bool = False
    program: bool = False
    allow_other: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerHost:
    """What a node has beside engines.

    `toolkit`: a program of NVIDIA's container toolkit is installed. `cdi` are the files that describe NVIDIA's GPUs.
    `logins` are the names of registries with a login of this user. `helper`: a program keeps logins, whose names it
    does not tell.
    """

    toolkit: bool = False
    cdi: tuple[str, ...] = ()
    logins: tuple[str, ...] = ()
    helper: bool = False
    fuse: Fuse = field(default_factory=Fuse)


def engine_probe(engine: Engine) -> str:
    """Return the name of the probe whether an engine can be used."""
    return f"engine {engine.value}"


def info_probe(engine: Engine) -> str:
    """Return the name of the probe how an engine is set up."""
    return f"engine info {engine.value}"


def read_engines(results: ProbeResults) -> Mapping[Engine, str]:
    """Return for each engine why it cannot be used; an empty text where it can be."""
    return {engine: _trouble(engine, results.get(engine_probe(engine))) for engine in ENGINE_COMMANDS}


def _trouble(engine: Engine, result: ProbeResult | None) -> str:
    why = failure_of(result, f"`{engine.value}`")
    if why is None:
        return ""
    said = (result.err if result else "").lower()
    if "permission denied" in said and engine is Engine.DOCKER:
        return (
            "the user may not use `docker`: add the user to the group `docker` (`sudo usermod -aG docker USER`), or "
            "set up rootless Docker (`dockerd-rootless-setuptool.sh install`)"
        )
    if "cannot connect" in said or "is the docker daemon running" in said:
        return f"the daemon of `{engine.value}` is not running: `sudo systemctl enable --now {engine.value}`"
    if "subuid" in said or "newuidmap" in said:
        return f"`{engine.value}` without root needs lines for the user in /etc/subuid and /etc/subgid, and `uidmap`"
    return why.why


def read_infos(results: ProbeResults) -> Mapping[Engine, EngineInfo | Unknown]:
    """Return how each engine is set up that was asked."""
    asked = [engine for engine in INFO_COMMANDS if info_probe(engine) in results]
    return {engine: _info(engine, results[info_probe(engine)]) for engine in asked}


def _info(engine: Engine, result: ProbeResult) -> EngineInfo | Unknown:
    found = read_object(result, f"`{engine.value} info`")
    if isinstance(found, Unknown):
        return found
    told = read_info(engine, string(found, "info"))
    space = found.get("space")
    if isinstance(told, Unknown) or not isinstance(space, dict):
        return told
    return EngineInfo(
        version=told.version,
        root=told.root,
        rootless=told.rootless,
        runtimes=told.runtimes,
        space=space_of(space, told.root),
    )


def read_info(engine: Engine, text: str) -> EngineInfo | Unknown:
    """Return how an engine is set up by what its `info` writes.

    Docker succeeds without its daemon, and says then that it has not reached it.
    """
    found = decode(text)
    if not isinstance(found, dict):
        return Unknown(why=f"the output of `{engine.value} info` cannot be parsed")
    if engine is Engine.PODMAN:
        host, store = _part(found, "host"), _part(found, "store")
        return EngineInfo(
            version=string(_part(found, "version"), "Version"),
            root=string(store, "graphRoot"),
            rootless=_part(host, "security").get("rootless") is True,
        )
    if errors := found.get("ServerErrors"):
        return Unknown(why=str(errors[0] if isinstance(errors, list) else errors)[:300])
    security, runtimes = found.get("SecurityOptions"), found.get("Runtimes")
    return EngineInfo(
        version=string(found, "ServerVersion"),
        root=string(found, "DockerRootDir"),
        rootless=isinstance(security, list) and any(str(one).startswith("name=rootless") for one in security),
        runtimes=_names(list(runtimes)) if isinstance(runtimes, dict) else (),
    )


def read_container_host(result: ProbeResult | None) -> ContainerHost | Unknown:
    """Return what a node has for containers beside engines."""
    found = read_object(result, "the check for containers")
    if isinstance(found, Unknown):
        return found
    fuse = _part(found, "fuse")
    return ContainerHost(
        toolkit=found.get("toolkit") is True,
        cdi=_names(found.get("cdi")),
        logins=_names(found.get("logins")),
        helper=found.get("helper") is True,
        fuse=Fuse(
            device=fuse.get("device") is True,
            program=fuse.get("program") is True,
            allow_other=fuse.get("allow_other") is True,
        ),
    )


def _part(found: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = found.get(key)
    return value if isinstance(value, dict) else {}


def _names(value: object) -> tuple[str, ...]:
    return tuple(str(one)[:256] for one in value[:MAX_NAMES]) if isinstance(value, list) else ()
