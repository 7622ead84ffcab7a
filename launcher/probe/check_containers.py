"""Checks of what a task with containers or mounted buckets needs of a node."""

from launcher.core.model.container import Engine
from launcher.core.model.inventory import GpuDriver, Node
from launcher.probe.containers import ENGINE_COMMANDS, INFO_COMMANDS, ContainerHost, EngineInfo
from launcher.probe.findings import Fact, Finding, bad, cannot_tell, good
from launcher.probe.needs import ContainerNeed, TaskNeeds
from launcher.probe.node_facts import Facts
from launcher.probe.nvidia.nvidia_smi import Driver
from launcher.probe.results import Unknown

GIB = 1024**3

LEAST_FREE = 1 * GIB
"""Bytes at an engine's images below which nothing starts there."""

ADVISED_FREE = 30 * GIB
"""Bytes; images with PyTorch and CUDA take 20 GiB and more once unpacked, and their layers need room beside that."""

PUBLIC = (
    "docker.io", "quay.io", "ghcr.io", "gcr.io", "mcr.microsoft.com", "public.ecr.aws", "registry.k8s.io",
    "nvcr.io/nvidia",
)  # fmt: skip
"""Registries, and a part of one, whose images most people get without a login; their own words tell of the others."""

_INSTALL = "install one there, give the user access to it, or exclude the node"


def containers(facts: Facts, node: Node, needs: TaskNeeds) -> Finding:
    """Check that the engines of the containers of a task can be used, have GPUs, and room for images."""
    for need in needs.containers:
        if why := unfit(facts, node, need):
            return bad(Fact.CONTAINERS, why)
    chosen = dict.fromkeys(engine for need in needs.containers if (engine := _engine(facts, node, need)))
    shown = []
    for engine in chosen:
        if engine not in INFO_COMMANDS:  # where it unpacks images is set by its own files
            shown.append(f"{engine.value}; the room for images is not looked at")
            continue
        info = facts.engine_infos.get(engine)
        if not isinstance(info, EngineInfo) or info.space is None:
            why = info.why if isinstance(info, Unknown) else "its folder is not on this node"
            return cannot_tell(Fact.CONTAINERS, f"`{engine.value}`: the room for images is unknown: {why}")
        if info.space.free < ADVISED_FREE:
            message = (
                f"{_size(info.space.free)} free at `{info.root}` for images, and how large the task's image is, is not "
                f"known before it is pulled; {_size(ADVISED_FREE)} are advised, unless the node has the image"
            )
            return bad(Fact.CONTAINERS, message, stops=False)
        kind = ", rootless" if info.rootless else ""
        shown.append(f"{engine.value} {info.version}{kind}, {_size(info.space.free)} free at `{info.root}`")
    return good(Fact.CONTAINERS, "; ".join(shown))


def unfit(facts: Facts, node: Node, need: ContainerNeed) -> str:
    """Return why a node cannot run a container with the engine that it needs, or with any; empty where it can."""
    if need.engine is not None:
        return _why_not(facts, node, need.engine, need)
    told = {engine: _why_not(facts, node, engine, need) for engine in ENGINE_COMMANDS}
    if "" in told.values():
        return ""
    absent = [one for one in told if facts.engines.get(one, "").endswith("not found") or one not in facts.engines]
    words = [why for engine, why in told.items() if engine not in absent]
    words += [f"not installed: {', '.join(engine.value for engine in absent)}"] if absent else []
    return f"no engine can be used ({'; '.join(words)}): {_INSTALL}"


def _engine(facts: Facts, node: Node, need: ContainerNeed) -> Engine | None:
    """Return the engine that would run a container here."""
    if need.engine is not None:
        return need.engine
    return next((one for one in ENGINE_COMMANDS if not _why_not(facts, node, one, need)), None)


def _why_not(facts: Facts, node: Node, engine: Engine, need: ContainerNeed) -> str:
    if why := facts.engines.get(engine, f"engine `{engine.value}` is not supported by this version"):
        return why
    info = facts.engine_infos.get(engine)
    if isinstance(info, EngineInfo) and info.space is not None and info.space.free < LEAST_FREE:
        return f"no room for images: {_size(info.space.free)} free at `{info.root}`; `{engine.value} system prune`"
    return _without_gpus(facts, engine, info) if need.gpus and _has_driver(facts, node) else ""


def _has_driver(facts: Facts, node: Node) -> bool:
    return node.gpu_driver is not GpuDriver.NONE and isinstance(facts.driver, Driver)


def _without_gpus(facts: Facts, engine: Engine, info: EngineInfo | Unknown | None) -> str:
    """Return why containers of an engine get no GPUs; empty where they do, and where nobody knows."""
    host = facts.container_host
    if not isinstance(host, ContainerHost):
        return ""
    if engine is Engine.PODMAN and not host.cdi:
        install = "" if host.toolkit else "install `nvidia-container-toolkit`, then "
        return (
            "`podman` has no description of the GPUs in /etc/cdi or /var/run/cdi: "
            f"{install}`sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"
        )
    if engine is Engine.ENROOT and not host.toolkit:
        return "`enroot` gives GPUs with `nvidia-container-cli`, which is not installed: `libnvidia-container-tools`"
    if engine is Engine.DOCKER and isinstance(info, EngineInfo) and "nvidia" not in info.runtimes and not host.toolkit:
        return (
            "`docker` has no NVIDIA container toolkit: install `nvidia-container-toolkit`, then `sudo nvidia-ctk "
            "runtime configure --runtime=docker` and restart Docker"
        )
    return ""


def fuse(facts: Facts, needs: TaskNeeds) -> Finding:
    """Check that buckets can be mounted, and be seen by the daemon of an engine, which is another user."""
    host = facts.container_host
    if not isinstance(host, ContainerHost):
        return cannot_tell(Fact.FUSE, host.why if isinstance(host, Unknown) else "it was not asked")
    if not host.fuse.device:
        return bad(Fact.FUSE, "`/dev/fuse` is missing or not the user's to use: `modprobe fuse`, or use `mode: COPY`")
    root = not isinstance(facts.host, Unknown) and facts.host.uid == 0
    if not root and not host.fuse.program:
        return bad(Fact.FUSE, "`fusermount3` is missing: install the package `fuse3`, or use `mode: COPY`")
    if needs.containers and not root and not host.fuse.allow_other:
        message = "containers cannot see mounted buckets: write `user_allow_other` to /etc/fuse.conf, or log in as root"
        return bad(Fact.FUSE, message)
    return good(Fact.FUSE, "buckets can be mounted")


def without_login(facts: Facts, needs: TaskNeeds) -> tuple[str, ...]:
    """Return the registries of a task's images that may want a login, and that this user has none for.

    A program that keeps logins does not tell for which registries.
    """
    host = facts.container_host
    if not isinstance(host, ContainerHost) or host.helper:
        return ()
    wanted = (registry_of(need.image) for need in needs.containers if need.image and not _is_public(need.image))
    return tuple(dict.fromkeys(name for name in wanted if name not in host.logins))


def registry_of(image: str) -> str:
    """Return the name of the registry that an image comes from; `docker.io` where it names none."""
    first, slash, _ = image.replace("#", "/", 1).partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"


def _is_public(image: str) -> bool:
    where = f"{image.replace('#', '/', 1)}/"
    return registry_of(image) in PUBLIC or any(where.startswith(f"{one}/") for one in PUBLIC)


def _size(count: int) -> str:
    return f"{count / GIB:.0f} GiB" if count >= 10 * GIB else f"{count / GIB:.1f} GiB"
