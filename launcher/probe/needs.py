"""What a task needs of nodes beyond what every run needs: what is asked of them for it, and checked."""

from dataclasses import dataclass

from launcher.core.model.container import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerNeed:
    """A container of a task. `engine` None stands for any, `image` is empty for one that no registry gives."""

    engine: Engine | None = None
    image: str = ""
    gpus: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNeeds:
    """What a task needs.

    A file is made in each of `folders`, outside of its workdir. `mounts`: buckets are mounted.
    """

    folders: tuple[str, ...] = ()
    containers: tuple[ContainerNeed, ...] = ()
    mounts: bool = False


NOTHING = TaskNeeds()
