"""Files of `tests/corpus/config`: bad ones with their exact error text, good ones with what was read."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from launcher.config.inventory.read import read_inventory
from launcher.config.task.read import parse_tasks
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import fold
from launcher.core.model.task import Group, Task
from launcher.errors import SpecError

CORPUS = Path(__file__).parents[2] / "corpus" / "config"


def files(folder: str) -> list[Path]:
    return sorted((CORPUS / folder).glob("*.yaml"))


def read(path: Path) -> str:
    if path.name.startswith("inventory"):
        return "\n".join(of_inventory(read_inventory(path)))
    tasks = parse_tasks(path.read_text(), path)
    kinds = (
        f"kinds of {name}: {[f'{form.gpus} x {form.accelerator}, {form.topology.nodes} nodes' for form in forms]}"
        for parsed in tasks
        for name, forms in parsed.kinds.items()
    )
    read = (line for parsed in tasks for line in of_task(parsed.task))
    return "\n".join([*read, *kinds, *(f"warning {warning}" for warning in tasks[0].warnings)])


def of_task(task: Task) -> Iterator[str]:
    yield f"task {task.name}: {task.stop_signal}, {task.stop_grace:g} s, secrets {list(task.secrets)}"
    for to, source in task.file_mounts.items():
        yield f"mount {to} from {Path(source).relative_to(Path.cwd())}"
    if task.git is not None:
        yield f"workdir from {task.git}"
    for to, bucket in task.bucket_mounts.items():
        parts = [bucket.store.value, bucket.place, bucket.bucket, bucket.prefix]
        uploads = [Path(path).name for path in bucket.uploads]
        yield f"bucket {to} {bucket.mode.value} {parts} of {bucket.url}, create {bucket.create}, uploads {uploads}"
    for group in task.groups:
        yield from of_group(group)


def of_group(group: Group) -> Iterator[str]:
    rule, recovery = group.topology, group.recovery
    shape = f"{rule.slices} x {rule.nodes_per_slice} within {rule.within}, {rule.spares} spares"
    yield f"group {group.name}: {shape}, {group.gpus} x {group.accelerator}"
    shown = {"slices", "nodes_per_slice", "within", "spares"}
    for key in (row.name for row in fields(rule) if row.name not in shown):
        if value := getattr(rule, key):
            yield f"  {key} {value}"
    yield f"  recovery {recovery.max_restarts} restarts, {recovery.node_attempts} attempts"
    if group.container:
        yield f"  {group.container}"
    yield f"  setup {group.setup!r}"
    yield f"  run {group.run!r}"
    if group.readiness is not None:
        yield f"  ready {group.readiness}"
    for name, value in group.envs.items():
        yield f"  env {name}={value!r}"


def of_inventory(inventory: Inventory) -> Iterator[str]:
    yield f"inventory {inventory.name}: {inventory.transport.value}, levels {list(inventory.levels)}"
    yield f"head {inventory.head}"
    yield f"fence {inventory.fence_command}, query {inventory.power_query}, lease {inventory.lease_path}"
    yield f"sim {inventory.sim}"
    yield from (f"storage {name}: {settings}" for name, settings in inventory.storage.items())
    for rack in dict.fromkeys(node.rack for node in inventory.nodes):
        nodes = [node for node in inventory.nodes if node.rack == rack]
        yield f"rack {rack}: {fold(node.name for node in nodes)} {dict(nodes[0].places)}"
        yield from (f"  {node}" for node in (nodes[0], nodes[-1]))


@pytest.mark.parametrize("path", files("bad"), ids=lambda path: path.stem)
def test_bad_file_is_refused_with_this_text(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with pytest.raises(SpecError) as refusal:
        read(Path(path.name))
    said = "\n".join(str(mistake) for mistake in refusal.value.mistakes)
    assert said.replace(str(path.parent), "<cwd>") == path.with_suffix(".txt").read_text().rstrip("\n")


@pytest.mark.parametrize("path", files("good"), ids=lambda path: path.stem)
def test_good_file_is_read_as_expected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    assert read(Path(path.name)) == path.with_suffix(".txt").read_text().rstrip("\n")
