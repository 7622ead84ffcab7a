"""Buckets that are copied to a node before its setup."""

import hashlib
import os

from launcher.core.model.buckets import BucketMount, ObjectStore
from tests.real.buckets.conftest import NewNode
from tests.real.buckets.store import Store

COUNT = 2000


def _copied(bucket: str, prefix: str = "") -> BucketMount:
    return BucketMount(url=f"s3://{bucket}/{prefix}", store=ObjectStore.S3, bucket=bucket, prefix=prefix)


def test_two_thousand_files_arrive_though_one_is_damaged_on_the_way(store: Store, new_node: NewNode) -> None:
    bucket = store.bucket("many-files") / "part"
    bucket.mkdir()
    sums = {}
    for number in range(COUNT):
        content = os.urandom(400)
        (bucket / f"f{number:04}").write_bytes(content)
        sums[f"f{number:04}"] = hashlib.sha256(content).hexdigest()
    node = new_node({"data": _copied("many-files", "part")})
    store.proxy.damage = 1
    assert node.prepared()["phase"] == "done"
    assert store.proxy.damaged == 1
    here = node.folder / "workdir" / "data"
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in here.iterdir()} == sums
    said = (node.folder / "log" / "provision.log").read_text()
    assert "corrupted on transfer" in said
    assert node.stop()["ok"]
    assert len(list(here.iterdir())) == COUNT
