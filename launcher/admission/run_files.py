"""The user's files of a run.

How much is sent to each node, and the copy that its controllers send.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from launcher.admission.listener import AdmissionListener, BucketsUploaded, BucketUpload, CloneBegun, FilesWeighed
from launcher.core.model.buckets import BucketMount
from launcher.core.model.inventory import Inventory
from launcher.core.model.run import Run
from launcher.core.model.task import Task
from launcher.transport.upload import buckets, files
from launcher.transport.upload.clone import clone


def check_out(listener: AdmissionListener, task: Task, fleet: Inventory, home: Path) -> Task:
    """Return a task whose git workdir, if any, is cloned on this machine.

    Imaginary racks get no files. LaunchError where it cannot be cloned.
    """
    if task.git is None or fleet.capabilities.imaginary:
        return task
    listener.notify(CloneBegun(workdir=task.git))
    return replace(task, git=clone(task.git, home))


def weigh(listener: AdmissionListener, task: Task, fleet: Inventory) -> None:
    """Report how much is sent to each node, and which files cannot be.

    LaunchError where one cannot be read.
    """
    if fleet.capabilities.imaginary:
        return
    wheels = dict.fromkeys(node.access.wheels for node in fleet.nodes if node.access.wheels and not node.access.python)
    if wheels or _sends_files(task, fleet):
        listener.notify(FilesWeighed(weight=files.weigh(task, [one for one in wheels if one])))


def copy_files(home: Path, run: Run) -> tuple[str, ...]:
    """Copy the files of a run as they are now; return those that were written meanwhile.

    A node that joins next week gets the same.
    """
    return files.keep(home, run).changed if _sends_files(run.task, run.fleet) else ()


def upload_buckets(listener: AdmissionListener, run: Run, secrets: Mapping[str, str]) -> None:
    """Upload what a task's buckets are to hold before nodes use them, and report how far that is; LaunchError."""

    def tell(mount: BucketMount, path: str, copied: int, total: int, more: str) -> None:
        listener.notify(BucketUpload(path=path, url=mount.url, copied=copied, total=total, more=more))

    if not run.fleet.capabilities.imaginary:
        buckets.upload(run, secrets, tell)
        listener.notify(BucketsUploaded())


def _sends_files(task: Task, fleet: Inventory) -> bool:
    return not fleet.capabilities.imaginary and (task.folder is not None or bool(task.file_mounts))
