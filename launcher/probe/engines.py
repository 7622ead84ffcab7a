"""Engines of containers: which of them a node has, and why others cannot be used."""

from collections.abc import Mapping, Sequence

from launcher.core.model.container import Engine
from launcher.probe.results import ProbeResult, ProbeResults, failure_of

COMMANDS: Mapping[Engine, Sequence[str]] = {
    Engine.DOCKER: ("docker", "version", "--format", "{{.Server.Version}}"),
    Engine.PODMAN: ("podman", "version", "--format", "{{.Client.Version}}"),
}
"""Commands that succeed where this user can use an engine; its daemon is asked, where it has one."""

TIMEOUT = 10.0


def probe_name(engine: Engine) -> str:
    """Return the name of the probe for an engine."""
    return f"engine {engine.value}"


def read_engines(results: ProbeResults) -> Mapping[Engine, str]:
    """Return for each engine why it cannot be used; an empty text where it can be."""
    return {engine: _trouble(engine, results.get(probe_name(engine))) for engine in COMMANDS}


def _trouble(engine: Engine, result: ProbeResult | None) -> str:
    why = failure_of(result, f"`{engine.value}`")
    if why is None:
        return ""
    said = (result.err if result else "").lower()
    if "permission denied" in said:
        return f"the user may not use `{engine.value}`: it is not in the group of the daemon"
    if "cannot connect" in said or "is the docker daemon running" in said:
        return f"the daemon of `{engine.value}` is not running"
    return why.why
