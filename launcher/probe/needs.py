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

    A file is made in each of `folders`, outside of its workdir. `mounts`: buckets are mounted. `head` are containers of
    a machine that is for heads alone. Without `ray`, the Ray of a run is not that of its nodes.
    """

    folders: tuple[str, ...] = ()
    containers: tuple[ContainerNeed, ...] = ()
    mounts: bool = False
    head: tuple[ContainerNeed, ...] = ()
    ray: bool = True

    @property
    def of_head(self) -> "TaskNeeds":
        """Return what the task needs of a machine for heads: nothing of the user's runs there."""
        return TaskNeeds(containers=self.head, ray=self.ray)


NOTHING = TaskNeeds()
