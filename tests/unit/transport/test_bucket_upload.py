"""Uploads to buckets from this machine, by the real rclone to a folder in place of a store."""

from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.model.buckets import BucketMount, ObjectStore, StorageSettings
from launcher.core.model.run import Run
from launcher.errors import LaunchError
from launcher.transport.upload import buckets
from tests.situations import make_run


def a_run(tmp_path: Path, store: Path) -> Run:
    """A run whose bucket `b` is the folder `b` of a store, and gets the folder `local`."""
    config = tmp_path / "rclone.conf"
    config.write_text(f"[disk]\ntype = alias\nremote = {store}\n")
    local = tmp_path / "local"
    local.mkdir()
    for number in range(30):
        (local / f"f{number}").write_bytes(b"x" * 1000)
    mount = BucketMount(url="s3://b", store=ObjectStore.S3, bucket="b", uploads=(str(local),))
    run = make_run()
    settings = {"s3": StorageSettings(rclone_config=str(config), remote="disk")}
    return replace(
        run, task=replace(run.task, bucket_mounts={"/data": mount}), fleet=replace(run.fleet, storage=settings)
    )


def test_an_upload_says_how_many_bytes_are_there(tmp_path: Path) -> None:
    told: list[tuple[str, str, int, int, str]] = []
    buckets.upload(a_run(tmp_path, tmp_path), {}, lambda mount, *said: told.append((mount.url, *said)))
    assert told[-1] == ("s3://b", str(tmp_path / "local"), 30_000, 30_000, "")
    assert (tmp_path / "b" / "f29").read_bytes() == b"x" * 1000


def test_an_upload_that_fails_gives_the_last_of_many_reasons(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / "b").touch()  # in the way of the bucket
    with pytest.raises(LaunchError, match=r"cannot upload `.*local` to s3://b: .*not a directory"):
        buckets.upload(a_run(tmp_path, store), {}, lambda *_: None)
