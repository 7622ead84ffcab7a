"""Slurm's topology.conf, and the output of `scontrol show topology`."""

import re

from launcher.config.importers.collector import HostCollector, number, short
from launcher.config.importers.slurm_topology import UUID, Block, Switch, add_topology, block_sizes, nodes_of
from launcher.config.importers.text_lines import Line, lines
from launcher.core.model.text import count

_PAIR = re.compile(r'([A-Za-z]\w*)=("[^"]*"|\S*)')
_KNOWN = {
    "blockname", "switchname", "nodes", "switches", "blocksizes", "blockindex", "blocksize", "level", "linkspeed",
    "aggregatedblock",
}  # fmt: skip
# `azslurm topology` writes this comment before each block; it comments out a block that is smaller than its `-s`.
_DOMAIN_COMMENT = re.compile(
    rf"ClusterUUID(?:\s+and\s+CliqueID)?\s*:\s*({UUID})(?:[\s.,]+([0-9]{{1,10}}))?", re.IGNORECASE
)
_OFF = re.compile(r"#*\s*(BlockName|SwitchName)=(\S+)", re.IGNORECASE)


def read(text: str, collector: HostCollector) -> None:
    """Add the nodes of a topology.conf, or of scontrol's output, to a collector."""
    conf = _Conf(collector)
    for line in lines(text, continued=True):
        conf.comment(line)
        if line.text:
            conf.line(line)
    conf.finish()


class _Conf:
    """The blocks and switches so far, and the domain of the next block."""

    def __init__(self, collector: HostCollector) -> None:
        self._collector = collector
        self._blocks: list[Block] = []
        self._switches: list[Switch] = []
        self._domain: tuple[str, str | None] | None = None
        self._without_clique: list[int] = []

    def comment(self, line: Line) -> None:
        """Read the comments of programs: domains, and blocks that are commented out."""
        if off := _OFF.match(line.comment):
            what = f"`{short(off[1] + '=' + off[2])}` skipped: it is commented out"
            hint = "remove the `#` to import its nodes; blocks may have any size here"
            self._collector.warn(line.number, what, hint)
            self._domain = None
        if domain := _DOMAIN_COMMENT.search(line.comment):
            self._domain = domain[1].lower(), domain[2]

    def line(self, line: Line) -> None:
        """Read one line of pairs."""
        pairs = {key.lower(): value.strip('"') for key, value in _PAIR.findall(line.text)}
        if rest := _PAIR.sub("", line.text).strip():
            hint = "write pairs such as `BlockName=b1 Nodes=n[01-18]`"
            self._collector.mistake(line.number, f"unexpected `{short(rest)}`", hint)
        for key in pairs.keys() - _KNOWN:
            self._collector.warn(line.number, f"unknown key `{short(key)}` ignored")
        if "blockname" in pairs:
            self._block(line.number, pairs)
        elif "switchname" in pairs:
            self._switch(line.number, pairs)
            self._domain = None
        elif "nodes" in pairs and "aggregatedblock" not in pairs:
            hint = "write `BlockName=` or `SwitchName=` on the same line"
            self._collector.mistake(line.number, "`Nodes=` without a block or a switch", hint)
        self._sizes(line.number, pairs.get("blocksizes", ""))

    def finish(self) -> None:
        """Add the nodes of all blocks and switches to the collector."""
        if self._without_clique:
            what = (
                f"{count(len(self._without_clique), 'block')} with a ClusterUUID but no CliqueId: the domain is unknown"
            )
            self._collector.warn(self._without_clique[0], what, "find domains with `nvlaunch inventory discover`")
        add_topology(self._blocks, self._switches, self._collector)

    def _block(self, line: int, pairs: dict[str, str]) -> None:
        nodes = nodes_of(pairs.get("nodes", ""), line, self._collector)
        if not pairs.get("nodes"):
            self._collector.warn(line, f"block `{short(pairs['blockname'])}` has no nodes: it is left out")
        domain = None
        if self._domain is not None:
            uuid, clique = self._domain
            domain = f"{uuid}.{clique}" if clique else None
            self._without_clique += [line] if clique is None else []
        self._domain = None
        for name in self._names(pairs["blockname"], line):
            self._blocks.append(Block(name=name, line=line, nodes=nodes, domain=domain))

    def _names(self, text: str, line: int) -> tuple[str, ...]:
        """Return the names of a block line.

        `scontrol` may fold several empty blocks into a range.
        """
        return self._collector.expand(text, line) if "[" in text else (text,)

    def _switch(self, line: int, pairs: dict[str, str]) -> None:
        children = self._collector.expand(pairs.get("switches", ""), line)
        # scontrol repeats at each switch all nodes below it.
        nodes = () if children else nodes_of(pairs.get("nodes", ""), line, self._collector)
        if children and "nodes" in pairs and "level" not in pairs:
            what = f"`Nodes` of switch `{short(pairs['switchname'])}` ignored: it has `Switches` too"
            self._collector.warn(line, what)
        self._switches.append(Switch(name=pairs["switchname"], line=line, nodes=nodes, children=children))

    def _sizes(self, line: int, text: str) -> None:
        sizes = [number(part, 1, 10**6) for part in text.split(",")] if text else []
        if None in sizes:
            self._collector.warn(line, f"`BlockSizes={short(text)}` is not a list of sizes")
        else:
            block_sizes([size for size in sizes if size is not None], line, self._collector)
