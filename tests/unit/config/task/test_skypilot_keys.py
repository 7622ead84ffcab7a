"""Every field of SkyPilot's schema has an effect, is ignored with a warning, or is refused with a hint.

The fields are those of sky/utils/schemas.py and sky/utils/dag_utils.py of SkyPilot 0.14.1.
"""

import re
from enum import Enum
from pathlib import Path

import pytest

from launcher.config.schema.unsupported import UNSUPPORTED
from launcher.config.task.read import ParsedTask, parse_tasks
from launcher.errors import SpecError

TASKS_PAGE = Path(__file__).parents[4] / "docs" / "tasks.md"


class Fate(Enum):
    """How a field is treated."""

    RUN = "run"
    WARNED = "warned"
    REFUSED = "refused"


RUN, WARNED, REFUSED = Fate


def names(text: str) -> list[str]:
    return text.split()


TASK = names("""
    name workdir event_callback num_nodes resources file_mounts service pool setup run envs secrets managed_secrets
    inputs outputs file_mounts_mapping config volumes volume_mounts api_server_access _metadata _user_specified_yaml
""")
RESOURCES = names("""
    infra cloud region zone accelerators gpus accelerator_args cpus memory instance_type use_spot job_recovery disk_size
    disk_tier ephemeral_storage local_disk network_tier max_hourly_cost ports image_id labels autostop priority
    priority_class any_of ordered volumes spot_recovery _docker_login_config _is_image_managed _requires_fuse
    _cluster_config_overrides _no_missing_accel_warnings
""")
STORAGE = names("name source store persistent mode type config _is_sky_managed _bucket_sub_path _force_delete")
HEADER = names("name execution primary_tasks termination_delay inter_connection")
SCHEMA = [
    *TASK,
    *(f"resources.{name}" for name in RESOURCES),
    *(f"file_mounts.{name}" for name in STORAGE),
    *(f"job group.{name}" for name in HEADER),
    *(f"resources.job_recovery.{name}" for name in ("strategy", "max_restarts_on_errors", "recover_on_exit_codes")),
    *(f"config.{name}" for name in ("docker", "nvidia_gpus", "ssh", "kubernetes", "gcp", "azure", "vast", "slurm")),
    *("config.active_workspace", "config.hooks"),
]

# field, perhaps in one of its forms: what becomes of it, and a file that has it
CASES: dict[str, tuple[Fate, str]] = {
    "name": (RUN, "name: a-b_c.d"),
    "workdir": (RUN, "workdir: ."),
    "workdir (git)": (RUN, "workdir: {url: https://github.com/a/b, ref: main}"),
    "num_nodes": (RUN, "num_nodes: 2"),
    "resources": (RUN, "resources: {}"),
    "envs": (RUN, "envs: {A: 1, B: true, C: x}"),
    "secrets": (RUN, "secrets: {}"),
    "secrets (list)": (REFUSED, "secrets: [secrets:A]"),
    "managed_secrets": (REFUSED, "managed_secrets: [A]"),
    "file_mounts": (RUN, "file_mounts: {~/a: FILE}"),
    "file_mounts (bucket)": (RUN, "file_mounts: {/data: s3://bucket/path}"),
    "volumes": (REFUSED, "volumes: {/data: my-volume}"),
    "setup": (RUN, "setup: pip install torch"),
    "run": (RUN, "run: python train.py"),
    "service": (WARNED, "service: {readiness_probe: /health, port: 8080, replicas: 2}"),
    "pool": (WARNED, "pool: {workers: 2}"),
    "config": (WARNED, "config: {kubernetes: {pod_config: {}}}"),
    "api_server_access": (WARNED, "api_server_access: true"),
    "event_callback": (WARNED, "event_callback: ./notify.sh"),
    "inputs": (WARNED, "inputs: {s3://a: 10}"),
    "outputs": (WARNED, "outputs: {s3://a: 10}"),
    "file_mounts_mapping": (REFUSED, "file_mounts_mapping: {}"),
    "volume_mounts": (REFUSED, "volume_mounts: []"),
    "_metadata": (REFUSED, "_metadata: {}"),
    "_user_specified_yaml": (REFUSED, "_user_specified_yaml: x"),
    "resources.infra": (WARNED, "resources: {infra: ssh/my-pool}"),
    "resources.cloud": (WARNED, "resources: {cloud: aws}"),
    "resources.region": (WARNED, "resources: {region: us-east-1}"),
    "resources.zone": (WARNED, "resources: {zone: us-east-1a}"),
    "resources.accelerators": (RUN, "resources: {accelerators: H100:8}"),
    "resources.accelerators (map)": (RUN, "resources: {accelerators: {H100: 8}}"),
    "resources.accelerators (set)": (RUN, "resources: {accelerators: {H100:8, A100:8}}"),
    "resources.accelerators (list)": (RUN, "resources: {accelerators: [H100:8, A100:8]}"),
    "resources.accelerators (part)": (WARNED, "resources: {accelerators: H100:0.5}"),
    "resources.gpus": (RUN, "resources: {gpus: H100:8}"),
    "resources.accelerator_args": (REFUSED, "resources: {accelerator_args: {tpu_vm: true}}"),
    "resources.cpus": (WARNED, "resources: {cpus: 32+}"),
    "resources.memory": (WARNED, "resources: {memory: 64+}"),
    "resources.instance_type": (WARNED, "resources: {instance_type: p5.48xlarge}"),
    "resources.use_spot": (WARNED, "resources: {use_spot: true}"),
    "resources.job_recovery": (RUN, "resources: {job_recovery: {max_restarts_on_errors: 3}}"),
    "resources.job_recovery (name)": (WARNED, "resources: {job_recovery: FAILOVER}"),
    "resources.job_recovery.strategy": (WARNED, "resources: {job_recovery: {strategy: FAILOVER}}"),
    "resources.job_recovery.max_restarts_on_errors": (
        RUN,
        "resources: {job_recovery: {max_restarts_on_errors: 3}}",
    ),
    "resources.job_recovery.recover_on_exit_codes": (
        WARNED,
        "resources: {job_recovery: {recover_on_exit_codes: [33]}}",
    ),
    "resources.disk_size": (WARNED, "resources: {disk_size: 512}"),
    "resources.disk_tier": (WARNED, "resources: {disk_tier: best}"),
    "resources.ephemeral_storage": (WARNED, "resources: {ephemeral_storage: 100}"),
    "resources.local_disk": (WARNED, "resources: {local_disk: nvme:1000+}"),
    "resources.network_tier": (WARNED, "resources: {network_tier: best}"),
    "resources.max_hourly_cost": (WARNED, "resources: {max_hourly_cost: 10}"),
    "resources.ports": (WARNED, "resources: {ports: [8080, 9000-9010]}"),
    "resources.image_id": (RUN, "resources: {image_id: docker:nvcr.io/nvidia/pytorch}"),
    "resources.labels": (WARNED, "resources: {labels: {team: vla}}"),
    "resources.autostop": (WARNED, "resources: {autostop: {idle_minutes: 10, down: true}}"),
    "resources.priority": (REFUSED if "priority" in UNSUPPORTED else RUN, "resources: {priority: 10}"),
    "resources.priority_class": (WARNED, "resources: {priority_class: high}"),
    "resources.any_of": (RUN, "resources: {any_of: [{accelerators: GB300:4}, {accelerators: GB200:4}]}"),
    "resources.ordered": (RUN, "resources: {ordered: [{accelerators: GB300:4}, {accelerators: GB200:4}]}"),
    "resources.volumes": (REFUSED, "resources: {volumes: [{path: /mnt, disk_size: 10}]}"),
    "resources.spot_recovery": (REFUSED, "resources: {spot_recovery: FAILOVER}"),
    "resources._docker_login_config": (REFUSED, "resources: {_docker_login_config: {}}"),
    "resources._is_image_managed": (REFUSED, "resources: {_is_image_managed: true}"),
    "resources._requires_fuse": (REFUSED, "resources: {_requires_fuse: true}"),
    "resources._cluster_config_overrides": (REFUSED, "resources: {_cluster_config_overrides: {}}"),
    "resources._no_missing_accel_warnings": (REFUSED, "resources: {_no_missing_accel_warnings: true}"),
    "file_mounts.name": (RUN, "file_mounts: {/a: {name: my-bucket, store: s3}}"),
    "file_mounts.source": (RUN, "file_mounts: {/a: {source: s3://bucket}}"),
    "file_mounts.store": (RUN, "file_mounts: {/a: {name: my-bucket, store: s3}}"),
    "file_mounts.persistent": (WARNED, "file_mounts: {/a: {name: my-bucket, store: gcs, persistent: false}}"),
    "file_mounts.mode": (REFUSED, "file_mounts: {/a: {source: FILE, mode: MOUNT}}"),
    "file_mounts.mode (cached)": (REFUSED, "file_mounts: {/a: {source: FILE, mode: MOUNT_CACHED}}"),
    "file_mounts.mode (copy)": (WARNED, "file_mounts: {~/a: {source: FILE, mode: COPY}}"),
    "file_mounts.type": (RUN, "file_mounts: {/a: {name: my-bucket, store: s3, type: DATASET_RO}}"),
    "file_mounts.config": (
        WARNED,
        "file_mounts: {/a: {name: my-bucket, store: s3, config: {mount: {}}}}",
    ),
    "file_mounts._is_sky_managed": (REFUSED, "file_mounts: {/a: {source: FILE, mode: COPY, _is_sky_managed: true}}"),
    "file_mounts._bucket_sub_path": (REFUSED, "file_mounts: {/a: {source: FILE, mode: COPY, _bucket_sub_path: x}}"),
    "file_mounts._force_delete": (REFUSED, "file_mounts: {/a: {source: FILE, mode: COPY, _force_delete: true}}"),
    "job group.name": (RUN, "name: g\nexecution: parallel\n---\nname: a\nrun: x\n---\nname: b\nrun: y"),
    "job group.execution": (RUN, "name: g\nexecution: parallel\n---\nname: a\nrun: x"),
    "job group.execution (serial)": (RUN, "name: g\nexecution: serial\n---\nname: a\nrun: x\n---\nname: b\nrun: y"),
    "job group.primary_tasks": (
        REFUSED,
        "name: g\nexecution: parallel\nprimary_tasks: [a]\n---\nname: a\nrun: x\n---\nname: b\nrun: y",
    ),
    "job group.primary_tasks (all)": (
        RUN,
        "name: g\nexecution: parallel\nprimary_tasks: [a, b]\n---\nname: a\nrun: x\n---\nname: b\nrun: y",
    ),
    "job group.termination_delay": (
        WARNED,
        "name: g\nexecution: parallel\ntermination_delay: 30s\n---\nname: a\nrun: x\n---\nname: b\nrun: y",
    ),
    "job group.inter_connection": (
        WARNED,
        "name: g\nexecution: parallel\ninter_connection: true\n---\nname: a\nrun: x\n---\nname: b\nrun: y",
    ),
    "config.docker": (WARNED, "config: {docker: {run_options: [--shm-size=1g]}}"),
    "config.nvidia_gpus": (WARNED, "config: {nvidia_gpus: {disable_ecc: true}}"),
    "config.ssh": (WARNED, "config: {ssh: {provision_timeout: 10}}"),
    "config.kubernetes": (WARNED, "config: {kubernetes: {provision_timeout: 10}}"),
    "config.gcp": (WARNED, "config: {gcp: {managed_instance_group: {}}}"),
    "config.azure": (WARNED, "config: {azure: {}}"),
    "config.vast": (WARNED, "config: {vast: {}}"),
    "config.slurm": (WARNED, "config: {slurm: {sbatch_options: {}}}"),
    "config.active_workspace": (WARNED, "config: {active_workspace: team}"),
    "config.hooks": (REFUSED, "config: {hooks: [{run: ./save.sh, events: [stop]}]}"),
}


def parse(folder: Path, text: str) -> ParsedTask:
    (folder / "file").write_text("x")
    path = folder / "task.yaml"
    whole = text if re.search(r"^run:", text, re.MULTILINE) else f"{text}\nrun: echo"
    return parse_tasks(whole.replace("FILE", str(folder / "file")), path)[0]


def test_every_field_of_the_schema_has_a_case() -> None:
    assert {re.sub(r" \(.*", "", name) for name in CASES} == set(SCHEMA)


@pytest.mark.parametrize("name", CASES)
def test_field_has_an_effect_or_a_warning_or_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fate, text = CASES[name]
    key = re.sub(r" \(.*", "", name).rpartition(".")[2]
    if fate is REFUSED:
        with pytest.raises(SpecError) as refusal:
            parse(tmp_path, text)
        (told,) = refusal.value.mistakes
        assert told.hint
        assert 0 < told.line <= text.count("\n") + 1
        assert key in told.what or "bucket" in told.what
        return
    warnings = parse(tmp_path, text).warnings
    assert len(warnings) == (fate is WARNED)
    assert all(key in f"{warning.what} mode" and warning.line for warning in warnings)


def test_docs_list_each_field() -> None:
    rows = re.findall(r"^\| (run|with a warning|refused) \|(.*?)\|$", TASKS_PAGE.read_text(), re.MULTILINE)
    said = {fate: set(re.findall(r"`([^`]+)`", words)) for fate, words in rows}
    for fate, words in ((RUN, "run"), (WARNED, "with a warning"), (REFUSED, "refused")):
        fields = {name.removeprefix("resources.") for name, case in CASES.items() if case[0] is fate}
        plain = {name for name in fields if not re.search(r"[ .]|^_", name)}
        assert plain - said[words] == set()
