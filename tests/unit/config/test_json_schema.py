"""The JSON Schema is valid, and agrees with the parser."""

from pathlib import Path

import jsonschema
import pytest
import yaml

from launcher.config.inventory.read import read_inventory
from launcher.config.json_schema import SpecKind, json_schema, schema_file
from launcher.config.task.read import read_task
from launcher.config.templates import read_template
from launcher.errors import SpecError

ROOT = Path(__file__).parents[3]
GOOD = sorted([*(ROOT / "examples").glob("*.yaml"), *(ROOT / "templates").glob("*.yaml")])
CORPUS = ROOT / "tests" / "corpus" / "config" / "good"
# YAML 1.1 reads a key `yes` as true, which JSON does not have, and `1e3` as text. The schema may refuse a null that the
# parser ignores.
APART = {"envs-as-skypilot", "inventory-sim", "nulls-are-left-out"}
READ = [path for path in sorted(CORPUS.glob("*.yaml")) if path.stem not in APART]
WRONG_TYPES = (
    "wrong-types",
    "unknown-keys-at-three-depths",
    "one-level-too-high",
    "zero-nodes",
    "quoted-number",
    "env-is-list",
)


def kind_of(path: Path) -> SpecKind:
    return SpecKind.INVENTORY if "racks" in yaml.safe_load(path.read_text()) else SpecKind.TASK


def validator(kind: SpecKind) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema(kind))


@pytest.mark.parametrize("kind", SpecKind)
def test_schema_is_valid(kind: SpecKind) -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema(kind))


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_examples_and_templates_satisfy_schema_and_parser(path: Path) -> None:
    kind = kind_of(path)
    assert list(validator(kind).iter_errors(yaml.safe_load(path.read_text()))) == []
    (read_task if kind is SpecKind.TASK else read_inventory)(path)


@pytest.mark.parametrize("path", READ, ids=lambda path: path.stem)
def test_schema_accepts_files_that_the_parser_accepts(path: Path) -> None:
    documents = [one for one in yaml.safe_load_all(path.read_text()) if one is not None]
    kind = SpecKind.INVENTORY if path.stem.startswith("inventory") else SpecKind.TASK
    if len(documents) == 1:  # the header of a job group is not a task
        assert [error.message for error in validator(kind).iter_errors(documents[0])] == []


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_schema_refuses_files_with_wrong_types(name: str) -> None:
    path = ROOT / "tests" / "corpus" / "config" / "bad" / f"{name}.yaml"
    with pytest.raises(SpecError):
        read_task(path)
    assert not validator(SpecKind.TASK).is_valid(yaml.safe_load(path.read_text()))


def test_every_key_has_a_description() -> None:
    def undescribed(schema: object, where: str) -> list[str]:
        if not isinstance(schema, dict):
            return []
        bad = [f"{where}.{k}" for k, v in schema.get("properties", {}).items() if not v.get("description")]
        inner = [*schema.get("properties", {}).items(), *enumerate(schema.get("anyOf", ()))]
        return bad + [one for key, value in inner for one in undescribed(value, f"{where}.{key}")]

    assert undescribed(json_schema(SpecKind.TASK), "task") == []
    assert undescribed(json_schema(SpecKind.INVENTORY), "inventory") == []


@pytest.mark.parametrize("name", ["task.yaml", "task-multi-slice.yaml", "inventory.yaml"])
def test_starter_file_points_to_its_schema(name: str) -> None:
    kind = SpecKind.INVENTORY if name == "inventory.yaml" else SpecKind.TASK
    assert read_template(name).startswith(f"# yaml-language-server: $schema={schema_file(kind)}\n")
