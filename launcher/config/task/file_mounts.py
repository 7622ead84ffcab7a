"""`file_mounts` of a task: local files and folders, and buckets, by their paths on the nodes."""

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from launcher.config.task.buckets import STORES, BucketUrlError, is_url, named_bucket, read_url
from launcher.config.task.local_paths import PathVariables, find_local, not_found
from launcher.config.task.skypilot_storage import WrittenMount
from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.nodes import NOWHERE, Mark
from launcher.config.yaml.values import Values
from launcher.core.model.buckets import BucketMount, MountMode, ObjectStore, settings_of, why_unreachable
from launcher.core.model.inventory import Inventory
from launcher.core.model.task import Task
from launcher.errors import Mistake, SpecError

KEY = "file_mounts"


def read_mounts(
    task: Values, variables: PathVariables, beside: Path, out: Diagnostics
) -> dict[str, tuple[str | BucketMount, Mark]]:
    """Return local paths or buckets, and positions, by path on the nodes.

    Those are absolute, in `~/`, or relative to the workdir. Variables of `envs` are expanded on both sides, as in
    SkyPilot. `beside` is the folder of the task file.
    """
    mounts: dict[str, tuple[str | BucketMount, Mark]] = {}
    for written, found in task.entries(KEY).items():
        if not isinstance(found.value, WrittenMount):
            continue

        def expanded(text: str, mark: Mark) -> str | None:
            return variables.expand(text, mark, out)

        to = expanded(written, found.key)
        mount = _expanded_mount(found.value, found.mark, expanded)
        if to is None or mount is None:
            continue
        target = _target(to, found.key, out)
        source = _resolved(f"{KEY}.{written}", mount, beside, found.mark, out)
        if target in mounts:
            out.mistake(found.key, f"two `{KEY}` have the target `{target}`", "remove one of the two")
        elif target is not None and source is not None:
            mounts[target] = source, found.key
    return mounts


def _expanded_mount(
    written: WrittenMount, mark: Mark, expanded: Callable[[str, Mark], str | None]
) -> WrittenMount | None:
    sources = [expanded(source, mark) for source in written.sources]
    name = None if written.name is None else expanded(written.name, mark)
    store = None if written.store is None else expanded(written.store, mark)
    if None in sources or (written.name is not None and name is None) or (written.store is not None and store is None):
        return None
    return replace(
        written,
        sources=tuple(source for source in sources if source is not None),
        name=name,
        store=None if store is None else store.lower(),
    )


def _resolved(name: str, mount: WrittenMount, beside: Path, mark: Mark, out: Diagnostics) -> str | BucketMount | None:
    """Return the local path or the bucket of a mount; None for a wrong one, which is reported."""
    urls = [source for source in mount.sources if is_url(source)]
    if not urls and (mount.name is None or (mount.mode is MountMode.COPY and len(mount.sources) == 1)):
        return _local(name, mount, beside, mark, out)
    if mount.temporary:
        hint = "delete it with the tools of the store once it is not needed"
        out.warn(mark, f"`{name}.persistent: false` has no effect: buckets are kept", hint)
    if mount.store is not None and mount.store not in STORES:
        out.mistake(mark, f"`{name}.store` is `{mount.store}`, which is no store", f"use one of {', '.join(STORES)}")
        return None
    try:
        if urls:
            return _at_url(mount)
        bucket = named_bucket(mount.name or "", STORES[mount.store or "s3"], mount.mode)
    except BucketUrlError as error:
        out.mistake(mark, f"`{name}`: {error.what}", error.hint)
        return None
    if mount.store is None:
        out.warn(mark, f"`{name}`: `{mount.name}` is a bucket of S3, because there is no `store`", "write `store: s3`")
    paths = [_source(source, beside, mark, out) for source in mount.sources]
    return None if None in paths else replace(bucket, uploads=tuple(path for path in paths if path is not None))


def _at_url(mount: WrittenMount) -> BucketMount:
    if len(mount.sources) > 1:
        raise BucketUrlError("several sources in one mount are not supported", "write one mount for each source")
    bucket = read_url(mount.sources[0], mount.mode)
    return replace(bucket, create=mount.name is not None and bucket.store is not ObjectStore.WEB)


def _local(name: str, mount: WrittenMount, beside: Path, mark: Mark, out: Diagnostics) -> str | None:
    """Return the one local path of a mount that is copied without a bucket."""
    if len(mount.sources) > 1:
        out.mistake(
            mark, f"`{name}`: several sources in one mount are not supported", "write one mount for each source"
        )
        return None
    source = mount.sources[0]
    if mount.mode is not MountMode.COPY:
        hint = f"use `mode: COPY` to copy `{source}` to the nodes, or name a bucket for it with `name:`"
        out.mistake(mark, f"`{name}`: `{source}` cannot be mounted without a bucket", hint)
        return None
    if mount.storage:
        out.warn(mark, f"`{name}`: `{source}` is copied to the nodes without a bucket")
    return _source(source, beside, mark, out)


def check_nesting(mounts: Mapping[str, tuple[str | BucketMount, Mark]], out: Diagnostics) -> None:
    """Report targets inside a mounted bucket: what is put there would be written to the bucket."""
    for outer, (source, _) in mounts.items():
        if isinstance(source, BucketMount) and source.mounted:
            for inner, (_, mark) in mounts.items():
                if inner.startswith(f"{outer.rstrip('/')}/") and inner != outer:
                    out.mistake(mark, f"`{inner}` is inside `{outer}`, a mounted bucket", "use a path outside of it")


def _target(to: str, mark: Mark, out: Diagnostics) -> str | None:
    """Return the normalised target path.

    A slash at the end is kept: the file goes into that folder.
    """
    if to.startswith("~") and to != "~" and not to.startswith("~/"):
        out.mistake(mark, f"`{to}` is in the home of another user", "write `~/PATH`, or an absolute path")
        return None
    plain = re.sub("^/+", "/", posixpath.normpath(to))
    if plain in ("/", "~", "."):
        out.mistake(mark, f"`{KEY}` cannot replace `{to}`", "name a file or a folder in it")
        return None
    if ".." in plain.split("/")[:2]:
        out.mistake(mark, f"`{to}` is outside of its folder", "write an absolute path, or `~/PATH`")
        return None
    return f"{plain}/" if to.endswith("/") else plain


def _source(written: str, beside: Path, mark: Mark, out: Diagnostics) -> str | None:
    path = find_local(written, beside, mark, out)
    if path is None:
        not_found(written, beside, mark, out)
    elif path.is_dir() or path.is_file():
        return str(path)
    else:
        out.mistake(mark, f"`{written}` is neither a file nor a folder")
    return None


def check_mounts(
    task: Task, inventory: Inventory, *, where: str = "", marks: Mapping[tuple[str, str], Mark] | None = None
) -> None:
    """Raise SpecError if a mount to local racks would overwrite files here, or nodes cannot know where a bucket is.

    `where` and `marks` are those of the ParsedTask, for positions in its file.
    """
    if not inventory.capabilities.imaginary:
        _check_storage(task, inventory, where, marks or {})
    if not inventory.capabilities.this_machine:
        return
    outside = [to for to in (*task.file_mounts, *task.bucket_mounts) if to.startswith(("/", "~/"))]
    if outside:
        raise SpecError(tuple(_refused(to, (marks or {}).get((KEY, to), NOWHERE), where) for to in outside))


def _check_storage(task: Task, inventory: Inventory, where: str, marks: Mapping[tuple[str, str], Mark]) -> None:
    lacking = {
        to: (mount, why)
        for to, mount in task.bucket_mounts.items()
        if (why := why_unreachable(mount, settings_of(inventory.storage, mount)))
    }
    if lacking:
        raise SpecError(
            tuple(
                Mistake(
                    what=f"inventory `{inventory.name}` does not say where `{mount.url}` is",
                    where=where or f"`{KEY}`",
                    line=marks.get((KEY, to), NOWHERE).line,
                    column=marks.get((KEY, to), NOWHERE).column,
                    hint=f"add {why} to `{mount.store.value}` in `storage:` of the inventory",
                )
                for to, (mount, why) in lacking.items()
            )
        )


def _refused(to: str, mark: Mark, where: str) -> Mistake:
    return Mistake(
        what=f"`{KEY}` to `{to}` would overwrite your own files: local racks run on this machine",
        where=where or f"`{KEY}`",
        line=mark.line,
        column=mark.column,
        hint=f"write a path relative to the workdir, such as `{posixpath.basename(to.rstrip('/'))}`",
    )
