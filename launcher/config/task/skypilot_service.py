"""SkyPilot's `service:` and `pool:`.

The task runs once, as `sky launch` runs it. Only the readiness probe of a service has an effect: it becomes that of the
group. Defaults are those of sky/serve/service_spec.py.
"""

import json
import re
from dataclasses import dataclass

import yaml

from launcher.config.schema.containers import MapOf
from launcher.config.schema.fields import Field, ScalarOrSection, section
from launcher.config.schema.scalars import Duration, Text
from launcher.config.schema.value_types import InvalidValueError, Schema
from launcher.config.task.skypilot_keys import Unread
from launcher.config.yaml.diagnostics import Diagnostics, KeyPath
from launcher.config.yaml.nodes import MappingNode, Mark, ScalarKind, ScalarNode, SequenceNode, YamlNode
from launcher.config.yaml.values import Values
from launcher.core.model.readiness import TIMEOUT_S, ReadinessProbe

MAX_BODY = 64_000
"""The most bytes of a readiness probe's body: it is sent to the node with each rank."""

_PROBE = "readiness_probe"
_PORTS = ("port", "ports")
_ONCE = "there is no load balancer, and the task runs once, as with `sky launch`"
_ONCE_HINT = "for several copies of the server use `num_nodes` or `topology: {slices: N}`, and your own load balancer"
_POOL = "no pool of workers is kept, and the task runs once, as with `sky launch`"
_POOL_HINT = "queue each job as a task of its own with `nvlaunch up --queue`"


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request: JSON as text, or as YAML."""

    expected: str = "JSON, as text or as a mapping"

    def read(self, node: YamlNode, at: KeyPath) -> str:
        """Return the JSON."""
        if isinstance(node, ScalarNode):
            try:
                json.loads(node.text)
            except ValueError:
                raise InvalidValueError(node.mark, f"`{at.name}` must be {self.expected}", None) from None
            text = node.text
        else:
            text = json.dumps(_plain(node))
        if len(text) > MAX_BODY:
            raise InvalidValueError(node.mark, f"`{at.name}` has more than {MAX_BODY:,} characters")
        return text

    def schema(self) -> Schema:
        """Return any JSON value."""
        return {}


def _plain(node: YamlNode) -> object:
    match node:
        case MappingNode():
            return {key.text: _plain(value) for key, value in node.pairs}
        case SequenceNode():
            return [_plain(item) for item in node.items]
        case ScalarNode():
            if node.quoted or node.kind is ScalarKind.TEXT:
                return node.text
            return yaml.safe_load(node.text)


@dataclass(frozen=True, slots=True)
class FirstPort:
    """SkyPilot's ports: one, a range, or a list of these; the first one counts."""

    expected: str = "a port, a range such as `8000-8003`, or a list"
    why: str = ""

    def read(self, node: YamlNode, at: KeyPath) -> int | None:
        """Return the first port; None where there is none, such as in a variable.

        With `why` there is a warning that gives this reason.
        """
        if self.why:
            at.out.warn(node.mark, f"`{at.name}` has no effect: {self.why}")
        first = node.items[0] if isinstance(node, SequenceNode) and node.items else node
        digits = re.match(r"\d{1,5}", first.text) if isinstance(first, ScalarNode) else None
        return int(digits[0]) if digits and 0 < int(digits[0]) < 65_536 else None

    def schema(self) -> Schema:
        """Return the schema of any value."""
        return {}


_PROBED = section(
    Field(name="path", doc="The path that is asked.", type=Text(pattern=r"\S+"), required=True),
    Field(name="initial_delay_seconds", doc="How long the server may take to start.", type=Duration()),
    Field(name="timeout_seconds", doc="How long an answer may take.", type=Duration(above=True), default=15),
    Field(name="post_data", doc="The body of a POST, as JSON or YAML.", type=Body()),
    Field(
        name="headers",
        doc="Headers of the request.",
        type=MapOf(item=Text(numbers=True), keys=Text(expected="the name of a header", pattern=r"[!-9;-~]+")),
    ),
    expected="a path, or a mapping with `path`",
)
_SERVICE = section(
    Field(
        name=_PROBE,
        doc="The path, or the request, that tells whether the server is ready.",
        type=ScalarOrSection(Text(pattern=r"\S+"), _PROBED, "a path, or a mapping with `path`"),
    ),
    *(Field(name=name, doc="The port of the server.", type=FirstPort()) for name in _PORTS),
    rest=Unread(),
)


@dataclass(frozen=True, slots=True)
class Service:
    """A service, of which only the readiness probe has an effect."""

    expected: str = "a mapping"

    def read(self, node: YamlNode, at: KeyPath) -> Values:
        """Return the section; a warning says what has no effect."""
        found = _SERVICE.read(node, at)
        others = " but its readiness probe" if found.has(_PROBE) else ""
        at.out.warn(node.mark, f"`{at.name}` has no effect{others}: {_ONCE}", _ONCE_HINT)
        return found

    def schema(self) -> Schema:
        """Return the schema of the section."""
        return _SERVICE.schema()


SERVICE = Field(
    name="service",
    doc="A key of SkyPilot: its `readiness_probe` tells `status` whether the server of rank 0 is ready.",
    type=Service(),
)
POOL = Field(name="pool", doc="A key of SkyPilot.", type=Unread(why=_POOL, hint=_POOL_HINT))
PORTS = Field(
    name="ports",
    doc="A key of SkyPilot: the first is the port of the readiness probe of a `service`.",
    type=FirstPort(why="nvlaunch does not change firewalls"),
)


def read_readiness(own: Values, resources: Values, out: Diagnostics) -> ReadinessProbe | None:
    """Return the readiness probe of a service, on its port or the first of `resources`; None without one."""
    service = own.section("service")
    if not service.has(_PROBE):
        return None
    text, probed = service.get(_PROBE, str), service.section(_PROBE)
    path = text or probed.get("path", str)
    ports = (*(service.get(name, int) for name in _PORTS), resources.get("ports", int))
    port = next((port for port in ports if port is not None), None)
    if path is None:
        return None
    if port is None:
        _unused(service.mark_of(_PROBE), out)
        return None
    headers = {name: one.value for name, one in probed.entries("headers").items() if isinstance(one.value, str)}
    return ReadinessProbe(
        path=path if path.startswith("/") else f"/{path}",
        port=port,
        timeout=probed.get("timeout_seconds", float) or TIMEOUT_S,
        body=probed.get("post_data", str),
        headers=headers,
    )


def _unused(mark: Mark, out: Diagnostics) -> None:
    what = f"`{_PROBE}` is not asked: the task names no port"
    out.warn(mark, what, "write the port of the server as `ports` of `resources`")
