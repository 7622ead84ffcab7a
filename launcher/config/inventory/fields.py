"""The table of an inventory's keys.

The parser, the JSON Schema and the documentation use it.
"""

from dataclasses import dataclass

from launcher.config.inventory.checks import CHECKS
from launcher.config.inventory.link_speeds import LINK_FIELDS
from launcher.config.inventory.storage import STORAGE_SETTINGS
from launcher.config.schema.containers import ListOf, MapOf
from launcher.config.schema.fields import Field, section
from launcher.config.schema.patterns import absolute_path, host, jump, label, path, user
from launcher.config.schema.scalars import Boolean, Choice, Duration, Integer, Number, Text
from launcher.config.schema.value_types import Schema, ValueType, invalid, read_or_report
from launcher.config.schema.variables import variables
from launcher.config.yaml.diagnostics import KeyPath
from launcher.config.yaml.nodes import MappingNode, ScalarKind, ScalarNode, SequenceNode, YamlNode
from launcher.config.yaml.values import FieldValue, Values
from launcher.core.model.container import Engine
from launcher.core.model.inventory import GpuDriver, HostKeyPolicy, ImexMode, Transport
from launcher.core.model.simulation import FaultKind

_TRANSPORTS = Choice(choices=tuple(one.value for one in Transport))
_FAULTS = Choice(choices=tuple(one.value for one in FaultKind))
_DRIVERS = Choice(choices=tuple(one.value for one in GpuDriver))
_IMEX = Choice(choices=tuple(one.value for one in ImexMode))
_ENGINES = Choice(choices=tuple(one.value for one in Engine))
_HOST_KEYS = Choice(choices=tuple(one.value for one in HostKeyPolicy))
_HOST_KEY = Text(
    expected="the fingerprint of a host key",
    pattern=r"SHA256:[A-Za-z0-9+/]{43}=?",
    hint="print it with `ssh-keyscan HOST | ssh-keygen -lf -`: `SHA256:` and 43 characters",
)

LEASE_PATH = "/run/lock/nvlaunch"
GPUS = 4  # in a compute tray of an NVL72 rack

_LOGIN = (
    Field(name="user", doc="The user to log in as. Default: the user that SSH chooses.", type=user),
    Field(name="port", doc="The port of the SSH server.", type=Integer(low=1, high=65535)),
    Field(name="identity_file", doc="The private key to log in with.", type=path),
    Field(name="proxy_jump", doc="The jump host or hosts, separated by commas.", type=jump),
    Field(
        name="python",
        doc="The Python with Ray on the nodes. Default: an environment is created once for each user.",
        type=absolute_path,
    ),
    Field(
        name="wheels",
        doc="A folder of wheels, on the nodes or on this machine, to create that environment without internet access.",
        type=path,
    ),
)
_ADDRESS = Field(name="address", doc="The host name or address for SSH. Default: the name of the node.", type=host)
_HOST_KEY_FIELD = Field(
    name="host_key",
    doc="The fingerprint of the host key that the node must have, as `ssh-keygen -lf` prints it.",
    type=_HOST_KEY,
)

_SHARED = (
    *_LOGIN,
    Field(name="gpus", doc="Number of GPUs of a node.", type=Integer(low=0, high=1024), default=GPUS),
    Field(name="accelerator", doc="The kind of GPU, such as `GB300`.", type=label),
    Field(name="gpu_driver", doc="`none` for nodes without real GPUs.", type=_DRIVERS),
    Field(name="env", doc="Variables of every command on the node.", type=variables),
)
_DOMAIN = Field(name="domain", doc="The NVLink domain. Default: the domain that the drivers report.", type=label)
_DRAINED = Field(
    name="drained",
    doc="The reason why the node must not be used.",
    type=Text(expected="the reason, as text", pattern=r"[^\x00-\x1f]*\S[^\x00-\x1f]*"),
)

NODE = section(
    _ADDRESS,
    *_SHARED,
    _DOMAIN,
    _DRAINED,
    Field(
        name="tray",
        doc="The number of the tray in the rack, from 0. Default: the position in the list.",
        type=Integer(high=9999),
    ),
    _HOST_KEY_FIELD,
    expected="a mapping such as `{address: 10.0.8.1}`",
)


@dataclass(frozen=True, slots=True)
class RackNodes:
    """The nodes of a rack: a range, a list of ranges, or a mapping.

    The keys of the mapping are ranges, the values their settings. All three are read as a mapping.
    """

    expected: str = "a range such as `r07-n[01-18]`, a list, or a mapping of nodes"

    def read(self, node: YamlNode, at: KeyPath) -> dict[str, FieldValue]:
        """Return each range with its own settings, in file order."""
        if isinstance(node, MappingNode) and node.pairs:
            return {key.text: self._one(key, value, at.inside(key.text)) for key, value in node.pairs}
        if isinstance(node, SequenceNode) and node.items:
            return {one.text: FieldValue(Values(one.mark), one.mark, one.mark) for one in self._names(node, at)}
        if isinstance(node, ScalarNode) and node.kind is not ScalarKind.NULL and node.text.strip():
            return {node.text: FieldValue(Values(node.mark), node.mark, node.mark)}
        raise invalid(node, at, self.expected)

    @staticmethod
    def _one(key: ScalarNode, value: YamlNode, at: KeyPath) -> FieldValue:
        bare = isinstance(value, ScalarNode) and value.kind is ScalarKind.NULL
        read = Values(key.mark) if bare else read_or_report(NODE, value, at)
        return FieldValue(read, value.mark, key.mark)

    @staticmethod
    def _names(node: SequenceNode, at: KeyPath) -> list[ScalarNode]:
        names: dict[str, ScalarNode] = {}
        for item in node.items:
            if not isinstance(item, ScalarNode) or item.kind is ScalarKind.NULL:
                hint = "to give nodes settings, write a mapping instead of a list"
                at.out.mistake(item.mark, f"`{at.name}` must be a list of names or ranges", hint)
            elif item.text in names:
                at.out.mistake(item.mark, f"node `{item.text}` is listed twice", "remove one of the two")
            else:
                names[item.text] = item
        return list(names.values())

    def schema(self) -> Schema:
        """Return the three forms."""
        text: Schema = {"type": "string", "minLength": 1}
        each = {"anyOf": [NODE.schema(), {"type": "null"}]}
        mapping = {"type": "object", "minProperties": 1, "additionalProperties": each}
        return {"anyOf": [text, {"type": "array", "items": text, "minItems": 1}, mapping]}


RACK = section(
    *_SHARED,
    _DOMAIN,
    _DRAINED,
    Field(name="nodes", doc="The nodes of the rack, in tray order.", type=RackNodes(), required=True),
    *LINK_FIELDS,
    rest=label,
    expected="a mapping such as `{nodes: r07-n[01-18]}`",
)

_FAULT = section(
    Field(name="at", doc="Seconds after the start of the run.", type=Number(), required=True),
    Field(name="node", doc="The node that fails.", type=label, required=True),
    Field(name="fault", doc="The kind of fault.", type=_FAULTS, required=True),
    Field(
        name="duration", doc="How long the fault lasts. Default: until the end, if the fault can last.", type=Duration()
    ),
    Field(
        name="code", doc="The exit status of the rank or setup that fails.", type=Integer(low=1, high=255), default=3
    ),
    Field(name="peer", doc="With `slow_link`: the node at its other end.", type=label),
    Field(
        name="factor",
        doc="With `slow_node` and `slow_link`: how many times slower a check is.",
        type=Number(above=True, low=1, high=1000),
        default=2,
    ),
    expected="a mapping such as `{at: 120, node: r03-n05, fault: power_cut}`",
)

_SIM = section(
    Field(
        name="seed",
        doc="The seed of random delays: the same seed gives the same run.",
        type=Integer(high=10**18 - 1),
        default=1,
    ),
    Field(name="start_s", doc="Seconds that a node takes to start.", type=Number(), default=3),
    Field(name="run_s", doc="Seconds that a rank runs.", type=Number(endless=True), default=600),
    Field(
        name="speed",
        doc="Virtual seconds per real second.",
        type=Number(endless=True, above=True),
        default="inf",
    ),
    Field(name="faults", doc="Faults, each with its time and node.", type=ListOf(item=_FAULT)),
)

_HEAD = section(
    Field(name="address", doc="The host name or address for SSH.", type=host, required=True),
    *_LOGIN,
    _HOST_KEY_FIELD,
    expected="a mapping such as `{address: 10.0.0.5}`",
)

_DEFRAG = section(
    Field(
        name="budget_gpu_hours_per_day",
        doc="The most GPU-hours that moves may cost in any 24 hours.",
        type=Number(),
        default=100,
    ),
    Field(
        name="quiet_hours",
        doc="Hours in which no move begins, such as `08:00-18:00`, in the time zone of the launching machine.",
        type=ListOf(
            item=Text(
                expected="hours such as `08:00-18:00`",
                pattern=r"([01][0-9]|2[0-3]):[0-5][0-9]-(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)",
            ),
            single=True,
        ),
    ),
    Field(
        name="min_benefit",
        doc="The least GPU-hours of waiting that moves must save for each GPU-hour that they cost.",
        type=Number(above=True),
        default=2,
    ),
    expected="a mapping such as `{budget_gpu_hours_per_day: 50}`",
)

_LEVELS: ValueType = ListOf(item=label, expected="a list of levels, the coarsest first")

INVENTORY = section(
    Field(name="name", doc="The name of the inventory. Default: the name of the file.", type=label),
    Field(
        name="transport",
        doc="How to reach the nodes: `ssh`, `local` (nodes on this machine) or `sim` (imaginary nodes).",
        type=_TRANSPORTS,
        default="ssh",
    ),
    Field(name="levels", doc="The levels above a node, the coarsest first; the last is `rack`.", type=_LEVELS),
    Field(
        name="defaults",
        doc="Settings of all nodes, unless a rack or a node overrides them.",
        type=section(*_SHARED, *LINK_FIELDS),
    ),
    Field(name="head", doc="A machine outside the racks that runs the Ray heads.", type=_HEAD),
    Field(
        name="fence_command",
        doc="A command that powers off a node (`{node}`, `{address}`, `{rack}`), and succeeds only if it is off.",
        type=Text(expected="a command", pattern=r"[^\x00-\x1f]*\S[^\x00-\x1f]*"),
    ),
    Field(
        name="power_query",
        doc="A command that succeeds only if a node (`{node}`, `{address}`, `{rack}`) is off. It changes nothing.",
        type=Text(expected="a command", pattern=r"[^\x00-\x1f]*\S[^\x00-\x1f]*"),
    ),
    Field(
        name="imex",
        doc="`manage` starts IMEX with `sudo -n` if it does not run, `adopt` uses it if it runs, `off` ignores it.",
        type=_IMEX,
        default=ImexMode.ADOPT.value,
    ),
    Field(
        name="container_engine",
        doc="The program that runs containers. Default: the one that most nodes of a run have.",
        type=_ENGINES,
    ),
    Field(
        name="lease_path",
        doc="The file on each node that shows which run uses it.",
        type=absolute_path,
        default=LEASE_PATH,
    ),
    Field(
        name="host_keys",
        doc="`learn` accepts and keeps the host key of a machine that nothing is known of; `strict` refuses it.",
        type=_HOST_KEYS,
        default=HostKeyPolicy.LEARN.value,
    ),
    Field(
        name="ray_tls",
        doc="Encrypt Ray's traffic, with certificates that are made for each run.",
        type=Boolean(),
        default=False,
    ),
    Field(
        name="racks",
        doc="The racks with their nodes.",
        type=MapOf(item=RACK, keys=label, expected="a mapping of racks to their nodes", filled=True),
        required=True,
    ),
    Field(name="storage", doc="How nodes reach buckets: by store, or by bucket.", type=STORAGE_SETTINGS),
    Field(name="checks", doc="Commands that prove under load that nodes work.", type=CHECKS),
    Field(name="defrag", doc="When `watch --all --defrag` moves slices.", type=_DEFRAG),
    Field(name="sim", doc="Settings of imaginary nodes.", type=_SIM),
)
