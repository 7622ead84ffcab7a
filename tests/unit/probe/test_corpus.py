"""Output of real tools, and the facts in it; another output is two new files.

`NAME.out` is what a tool printed; `NAME.json` says how it ended and the facts. Fields at their default are left out.
`NVLAUNCH_REWRITE_CORPUS=1` writes the facts anew, to be read before they are committed.
"""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path

import pytest

from launcher.core.model.container import Engine
from launcher.probe import containers, imex, system
from launcher.probe.nvidia import nvidia_smi, xid
from launcher.probe.results import ProbeResult

CORPUS = Path(__file__).parents[2] / "corpus" / "probe"
CASES = sorted(CORPUS.glob("*/*.out"))
NOW = 1_790_000_000.0
PARSERS: Mapping[str, Callable[[ProbeResult], object]] = {
    "nvidia_smi": nvidia_smi.read_driver,
    "imex_domain": imex.read_domain,
    "imex_state": imex.read_ready,
    "imex_unit": system.read_imex_unit,
    "xids": lambda ran: xid.read_xids(ran, "the log"),
    "clock": lambda ran: system.read_clock(ran, NOW),
    "logout": system.read_logout,
    "sudo": system.read_sudo,
    "docker_info": lambda ran: containers.read_info(Engine.DOCKER, ran.out),
    "podman_info": lambda ran: containers.read_info(Engine.PODMAN, ran.out),
    "docker_version": lambda ran: containers.read_engines({containers.engine_probe(Engine.DOCKER): ran})[Engine.DOCKER],
    "podman_version": lambda ran: containers.read_engines({containers.engine_probe(Engine.PODMAN): ran})[Engine.PODMAN],
    "container_host": containers.read_container_host,
    "python": lambda ran: system.read_python(ran, "/opt/ray/bin/python"),
}


def shown(value: object) -> object:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, tuple):
        return [shown(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): shown(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        said = {
            f.name: getattr(value, f.name) for f in dataclasses.fields(value) if getattr(value, f.name) != _default(f)
        }
        return {"is": type(value).__name__, **{name: shown(item) for name, item in said.items()}}
    return value


def _default(field: "dataclasses.Field[object]") -> object:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


@pytest.mark.parametrize("path", CASES, ids=[f"{path.parent.name}/{path.stem}" for path in CASES])
def test_output_has_these_facts(path: Path) -> None:
    expected_at = path.with_suffix(".json")
    case = json.loads(expected_at.read_text())
    found = shown(PARSERS[path.parent.name](ProbeResult(out=path.read_text(), **case["ran"])))
    if os.environ.get("NVLAUNCH_REWRITE_CORPUS"):
        expected_at.write_text(json.dumps({**case, "facts": found}, indent=1) + "\n")
        return
    assert found == case["facts"]


def test_each_parser_has_cases() -> None:
    assert {path.parent.name for path in CASES} == set(PARSERS)
