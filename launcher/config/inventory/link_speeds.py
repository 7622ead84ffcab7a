"""The link speeds of racks: `network_gb_s` and `nvlink_gb_s` of an inventory."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from launcher.config.schema.fields import Field, ScalarOrSection, section
from launcher.config.schema.scalars import Number
from launcher.config.yaml.values import Values
from launcher.core.model.inventory import Node, RackName
from launcher.core.model.traffic import LinkSpeeds

_GB_S = Number(low=0.01, high=100_000)
_ALL_REDUCE, _ALL_GATHER, _ALL_TO_ALL = "all_reduce", "all_gather", "all_to_all"
_BY_COLLECTIVE = section(
    Field(name=_ALL_REDUCE, doc="Bus bandwidth of all-reduce.", type=_GB_S, required=True),
    Field(name=_ALL_GATHER, doc="Bus bandwidth of all-gather and reduce-scatter.", type=_GB_S),
    Field(name=_ALL_TO_ALL, doc="Bus bandwidth of all-to-all.", type=_GB_S),
)
MEASURED = ("gb200", "gb300")
"""The kinds of GPU that the default bandwidth of NVLink was measured on."""


LINK_FIELDS = (
    Field(
        name="network_gb_s",
        doc="Bandwidth of a GPU outside its NVLink domain (GB/s): 50 for a port of 400 Gb/s, 100 for 800 Gb/s.",
        type=_GB_S,
        default=LinkSpeeds().network,
    ),
    Field(
        name="nvlink_gb_s",
        doc="Bus bandwidth of all-reduce in the rack (GB/s per GPU), measured with nccl-tests; others follow "
        "in proportion, unless all are given: `{all_reduce: 900, all_gather: 650, all_to_all: 640}`. Default: 840 on "
        "GB200 and GB300, unknown on other kinds of GPU.",
        type=ScalarOrSection(
            _GB_S,
            _BY_COLLECTIVE,
            "a number of at least 0.01, or a mapping such as `{all_reduce: 900, all_to_all: 650}`",
        ),
    ),
)


def read_links(
    defaults: Values, racks: Mapping[RackName, Values], nodes: Iterable[Node]
) -> dict[RackName, LinkSpeeds | None]:
    """Return the racks whose speeds are not the defaults; None where those of NVLink are unknown.

    The defaults are measured on GB200 and GB300; a rack with another kind of GPU needs `nvlink_gb_s`.
    """
    others = {node.rack for node in nodes if node.accelerator is not None and not _is_measured(node.accelerator)}
    links: dict[RackName, LinkSpeeds | None] = {}
    for name, rack in racks.items():
        speeds = _speeds(rack.over(defaults), known=name not in others)
        if speeds != LinkSpeeds():
            links[name] = speeds
    return links


def _is_measured(accelerator: str) -> bool:
    return any(kind in accelerator.casefold() for kind in MEASURED)


def _speeds(values: Values, *, known: bool) -> LinkSpeeds | None:
    network = values.get("network_gb_s", float)
    speeds = LinkSpeeds() if network is None else LinkSpeeds(network=network)
    by_collective = values.section("nvlink_gb_s")
    all_reduce = values.get("nvlink_gb_s", float) or by_collective.get(_ALL_REDUCE, float)
    if all_reduce is None:
        return speeds if known else None
    share = all_reduce / speeds.all_reduce
    return replace(
        speeds,
        all_reduce=all_reduce,
        all_gather=by_collective.get(_ALL_GATHER, float) or speeds.all_gather * share,
        all_to_all=by_collective.get(_ALL_TO_ALL, float) or speeds.all_to_all * share,
    )
