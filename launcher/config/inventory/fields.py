"""The table of an inventory's keys. The parser, the JSON Schema and the starter file follow it."""

from dataclasses import dataclass

from launcher.config.schema.fields import Field, section
from launcher.config.schema.patterns import absolute_path, host, jump, label, path, user
from launcher.config.schema.shapes import (
    Choice,
    Duration,
    ListOf,
    MapOf,
    Number,
    Schema,
    Shape,
    Text,
    Whole,
    attempt,
    wrong,
)
from launcher.config.schema.values import variables
from launcher.config.yaml.nodes import Items, Kind, Node, Pairs, Scalar
from launcher.config.yaml.reading import Found, Spot, Values
from launcher.core.model.inventory import GpuDriver, ImexMode, Transport
from launcher.core.model.simulation import FaultKind

_TRANSPORTS = Choice(message=tuple(one.value for one in Transport))
_FAULTS = Choice(message=tuple(one.value for one in FaultKind))
_DRIVERS = Choice(message=tuple(one.value for one in GpuDriver))
_IMEX = Choice(message=tuple(one.value for one in ImexMode))
_HOST_KEY = Text(
    word="the fingerprint of a host key",
    pattern=r"SHA256:[A-Za-z0-9+/]{43}=?",
    hint="`ssh-keyscan HOST | ssh-keygen -lf -` prints it: `SHA256:` and 43 characters",
)

LEASE_PATH = "/run/lock/nvlaunch"
GPUS = 4  # of a compute tray of an NVL72 rack

_LOGIN = (
    Field(name="user", doc="Who logs in; left out: as SSH finds it.", shape=user),
    Field(name="port", doc="The port of SSH.", shape=Whole(low=1, high=65535)),
    Field(name="identity_file", doc="The private key to log in with.", shape=path),
    Field(name="proxy_jump", doc="The host, or hosts, to go through.", shape=jump),
    Field(name="python", doc="The node's Python that has Ray; left out: an environment is made.", shape=absolute_path),
    Field(
        name="wheels",
        doc="A folder of wheels, on the nodes or here, to make that environment from without internet.",
        shape=path,
    ),
)
_ADDRESS = Field(name="address", doc="Where to reach it; left out: its name.", shape=host)
_HOST_KEY_FIELD = Field(name="host_key", doc="The host key that must answer.", shape=_HOST_KEY)

_SHARED = (
    *_LOGIN,
    Field(name="gpus", doc="GPUs of a node.", shape=Whole(low=0, high=1024), default=GPUS),
    Field(name="accelerator", doc="The kind of its GPUs, such as `GB300`.", shape=label),
    Field(name="gpu_driver", doc="`none` for nodes whose GPUs are pretended.", shape=_DRIVERS),
    Field(name="env", doc="Variables of every command on the node.", shape=variables),
)
_DOMAIN = Field(name="domain", doc="The NVLink domain; left out: as the drivers report it.", shape=label)
_DRAINED = Field(
    name="drained",
    doc="Why it must not be used.",
    shape=Text(word="the reason, as text", pattern=r"[^\x00-\x1f]*\S[^\x00-\x1f]*"),
)

NODE = section(
    _ADDRESS,
    *_SHARED,
    _DOMAIN,
    _DRAINED,
    Field(name="tray", doc="Its place in the rack, from 0; left out: its place in the list.", shape=Whole(high=9999)),
    _HOST_KEY_FIELD,
    word="a mapping such as `{address: 10.0.8.1}`",
)


@dataclass(frozen=True, slots=True)
class RackNodes:
    """The nodes of a rack: a range, a list of ranges, or a mapping of ranges to what differs. Read as the last."""

    word: str = "a range such as `r07-n[01-18]`, a list, or a mapping of nodes"

    def read(self, node: Node, at: Spot) -> dict[str, Found]:
        """Return each range with its own values, in file order."""
        if isinstance(node, Pairs) and node.pairs:
            return {key.text: self._one(key, value, at.inside(key.text)) for key, value in node.pairs}
        if isinstance(node, Items) and node.items:
            return {one.text: Found(Values(one.mark), one.mark, one.mark) for one in self._names(node, at)}
        if isinstance(node, Scalar) and node.kind is not Kind.NOTHING and node.text.strip():
            return {node.text: Found(Values(node.mark), node.mark, node.mark)}
        raise wrong(node, at, self.word)

    @staticmethod
    def _one(key: Scalar, value: Node, at: Spot) -> Found:
        bare = isinstance(value, Scalar) and value.kind is Kind.NOTHING
        read = Values(key.mark) if bare else attempt(NODE, value, at)
        return Found(read, value.mark, key.mark)

    @staticmethod
    def _names(node: Items, at: Spot) -> list[Scalar]:
        names: dict[str, Scalar] = {}
        for item in node.items:
            if not isinstance(item, Scalar) or item.kind is Kind.NOTHING:
                hint = "nodes with settings form a mapping"
                at.out.mistake(item.mark, f"`{at.name}` must list names or ranges", hint)
            elif item.text in names:
                at.out.mistake(item.mark, f"node `{item.text}` is listed twice", "keep one of the two")
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
    Field(name="nodes", doc="The nodes of the rack, in tray order.", shape=RackNodes(), required=True),
    rest=label,
    word="a mapping such as `{nodes: r07-n[01-18]}`",
)

_FAULT = section(
    Field(name="at", doc="Seconds after the run's start.", shape=Number(), required=True),
    Field(name="node", doc="The node that it befalls.", shape=label, required=True),
    Field(name="fault", doc="What breaks.", shape=_FAULTS, required=True),
    Field(name="duration", doc="How long it lasts; left out: for good, where it can.", shape=Duration()),
    Field(name="code", doc="The exit status of what fails.", shape=Whole(low=1, high=255), default=3),
    word="a mapping such as `{at: 120, node: r03-n05, fault: power_cut}`",
)

_SIM = section(
    Field(name="seed", doc="Which of all imaginary histories to play.", shape=Whole(), default=1),
    Field(name="start_s", doc="Seconds that a node takes to start.", shape=Number(), default=3),
    Field(name="run_s", doc="Seconds that a rank runs.", shape=Number(endless=True), default=600),
    Field(
        name="speed",
        doc="Virtual seconds of one real second.",
        shape=Number(endless=True, above=True),
        default="inf",
    ),
    Field(name="faults", doc="What breaks, and when.", shape=ListOf(item=_FAULT)),
)

_HEAD = section(
    Field(name="address", doc="Where to reach it.", shape=host, required=True),
    *_LOGIN,
    _HOST_KEY_FIELD,
    word="a mapping such as `{address: 10.0.0.5}`",
)

_LEVELS: Shape = ListOf(item=label, word="a list of levels, the coarsest first")

INVENTORY = section(
    Field(name="name", doc="The name of the inventory; left out: that of its file.", shape=label),
    Field(name="transport", doc="How its nodes are reached.", shape=_TRANSPORTS, default="ssh"),
    Field(name="levels", doc="The levels above a node, the coarsest first; `rack` is the last.", shape=_LEVELS),
    Field(name="defaults", doc="What holds for every node that does not say otherwise.", shape=section(*_SHARED)),
    Field(name="head", doc="A machine outside the racks for the heads of Ray clusters.", shape=_HEAD),
    Field(
        name="fence_command",
        doc="A command that makes sure that `{node}` is off.",
        shape=Text(word="a command", pattern=r"[^\x00-\x1f]*\S[^\x00-\x1f]*"),
    ),
    Field(
        name="imex",
        doc="`manage`: start it where it does not run, by `sudo -n`; `adopt`: use what runs; `off`: leave it alone.",
        shape=_IMEX,
        default=ImexMode.ADOPT.value,
    ),
    Field(
        name="lease_path",
        doc="The file on each node that shows who has it.",
        shape=absolute_path,
        default=LEASE_PATH,
    ),
    Field(
        name="racks",
        doc="The racks with their nodes.",
        shape=MapOf(item=RACK, keys=label, word="a mapping of racks to their nodes", filled=True),
        required=True,
    ),
    Field(name="sim", doc="How an imaginary fleet behaves.", shape=_SIM),
)
