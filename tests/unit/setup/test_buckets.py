"""What a node is told of a bucket: settings of rclone, and the names of keys, never keys."""

from launcher.core.model.buckets import BucketMount, ObjectStore, StorageSettings
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.setup.buckets import bucket_spec, buckets_spec

S3 = BucketMount(url="s3://data/a/b", store=ObjectStore.S3, bucket="data", prefix="a/b")


def _settings(mount: BucketMount, settings: StorageSettings) -> dict[str, str]:
    spec = bucket_spec("/data", mount, settings)
    return {name.removeprefix("RCLONE_CONFIG_B_"): value for name, value in spec["settings"].items()}


def test_an_endpoint_of_its_own_needs_no_cloud() -> None:
    settings = StorageSettings(endpoint="http://minio:9000", region="r", access_key="A", secret_key="B")
    spec = bucket_spec("/data", S3, settings)
    assert spec["remote"] == "b:data/a/b"
    assert _settings(S3, settings) == {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ENDPOINT": "http://minio:9000",
        "REGION": "r",
        "ENV_AUTH": "true",
        "NO_CHECK_BUCKET": "true",
    }
    assert spec["variables"] == {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "B"}


def test_a_file_of_keys_is_named_and_not_read_here() -> None:
    spec = bucket_spec("/data", S3, StorageSettings(credentials="~/.aws/credentials", profile="p"))
    assert spec["files"] == {"AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}
    assert spec["settings"]["AWS_PROFILE"] == "p"
    assert spec["settings"]["RCLONE_CONFIG_B_PROVIDER"] == "AWS"


def test_secrets_of_the_task_with_the_names_of_aws_are_used() -> None:
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "OTHER")
    spec = bucket_spec("/data", S3, StorageSettings(), names)
    assert spec["variables"] == {name: name for name in names[:2]}


def test_a_public_bucket_is_asked_without_keys() -> None:
    assert "ENV_AUTH" not in _settings(S3, StorageSettings(anonymous=True))


def test_each_store_has_its_own_settings() -> None:
    cos = BucketMount(url="cos://us-south/b", store=ObjectStore.COS, bucket="b", place="us-south")
    assert _settings(cos, StorageSettings())["ENDPOINT"] == "https://s3.us-south.cloud-object-storage.appdomain.cloud"
    azure = BucketMount(url="https://a.blob.core.windows.net/c", store=ObjectStore.AZURE, bucket="c", place="a")
    assert _settings(azure, StorageSettings()) == {"TYPE": "azureblob", "ACCOUNT": "a", "ENV_AUTH": "true"}
    spec = bucket_spec("/data", azure, StorageSettings(secret_key="KEY"))
    assert spec["variables"] == {"RCLONE_CONFIG_B_KEY": "KEY"}
    gcs = BucketMount(url="gs://b", store=ObjectStore.GCS, bucket="b")
    spec = bucket_spec("/data", gcs, StorageSettings(credentials="/key.json"))
    assert spec["files"] == {"RCLONE_CONFIG_B_SERVICE_ACCOUNT_FILE": "/key.json"}


def test_a_section_of_rclones_own_file_says_everything() -> None:
    spec = bucket_spec("/data", S3, StorageSettings(rclone_config="/etc/rclone.conf", remote="ours"))
    assert (spec["remote"], spec["settings"]) == ("ours:data/a/b", {})
    assert spec["files"] == {"RCLONE_CONFIG": "/etc/rclone.conf"}


def test_a_node_is_given_only_the_variables_that_name_keys() -> None:
    group = Group(name="main", topology=TopologyRule(), run="true")
    task = Task(name="t", groups=(group,), bucket_mounts={"/data": S3})
    storage = {"s3": StorageSettings(access_key="A", secret_key="B")}
    spec = buckets_spec(task, storage, {"A": "1", "C": "2"}, {})
    assert spec["env"] == {"A": "1"}
