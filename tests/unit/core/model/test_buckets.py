"""Which settings of an inventory a bucket has."""

import pytest

from launcher.core.model.buckets import (
    BucketMount,
    MountMode,
    ObjectStore,
    StorageSettings,
    settings_of,
    storage_key,
    why_unreachable,
)

S3 = BucketMount(url="s3://data/a", store=ObjectStore.S3, bucket="data", prefix="a")


def test_settings_of_a_bucket_come_before_those_of_its_store() -> None:
    own, store = StorageSettings(anonymous=True), StorageSettings(endpoint="http://minio")
    assert settings_of({"s3": store, "s3://data": own}, S3) == own
    assert settings_of({"s3": store, "s3://other": own}, S3) == store
    assert settings_of({"gs": store}, S3) == StorageSettings()


def test_a_container_of_azure_is_named_with_its_account() -> None:
    azure = BucketMount(url="https://a.blob.core.windows.net/c", store=ObjectStore.AZURE, bucket="c", place="a")
    assert storage_key(azure) == "azure://a/c"


@pytest.mark.parametrize(
    ("store", "settings", "lacks"),
    [
        (ObjectStore.S3, StorageSettings(), ""),
        (ObjectStore.R2, StorageSettings(), "`endpoint: https://ACCOUNT.r2.cloudflarestorage.com`"),
        (ObjectStore.R2, StorageSettings(endpoint="https://x"), ""),
        (ObjectStore.NEBIUS, StorageSettings(region="eu-north1"), ""),
        (ObjectStore.NEBIUS, StorageSettings(), "`region: REGION`"),
        (ObjectStore.OCI, StorageSettings(), "`rclone_config` and `remote`"),
        (ObjectStore.OCI, StorageSettings(rclone_config="/etc/rclone.conf", remote="oci"), ""),
    ],
)
def test_it_is_known_what_an_inventory_lacks_for_a_store(
    store: ObjectStore, settings: StorageSettings, lacks: str
) -> None:
    assert why_unreachable(BucketMount(url="x", store=store, bucket="b"), settings) == lacks


def test_all_modes_but_copy_are_mounts() -> None:
    modes = {mode for mode in MountMode if BucketMount(url="x", store=ObjectStore.S3, mode=mode).mounted}
    assert modes == {MountMode.MOUNT, MountMode.MOUNT_CACHED}
