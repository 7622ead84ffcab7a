"""Slurm's topology.conf (block and switch), and what `scontrol show topology` prints of it."""

import re

from launcher.config.importers.roster import Roster, number, short
from launcher.config.importers.slurm import UUID, Block, Switch, block_sizes, nodes_of, take_in
from launcher.config.importers.text import Line, lines
from launcher.core.model.text import count

_PAIR = re.compile(r'([A-Za-z]\w*)=("[^"]*"|\S*)')
_KNOWN = {
    "blockname", "switchname", "nodes", "switches", "blocksizes", "blockindex", "blocksize", "level", "linkspeed",
    "aggregatedblock",
}  # fmt: skip
# Written by `azslurm topology` before each block, and instead of one that is too small for its `-s`.
_DOMAIN = re.compile(rf"ClusterUUID(?:\s+and\s+CliqueID)?\s*:\s*({UUID})(?:[\s.,]+([0-9]{{1,10}}))?", re.IGNORECASE)
_OFF = re.compile(r"#*\s*(BlockName|SwitchName)=(\S+)", re.IGNORECASE)


def read(text: str, roster: Roster) -> None:
    """Add the nodes of a topology.conf, or of scontrol's output, to a roster."""
    conf = _Conf(roster)
    for line in lines(text, continued=True):
        conf.comment(line)
        if line.text:
            conf.line(line)
    conf.finish()


class _Conf:
    """What was read so far; a comment counts for the block that follows it."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._blocks: list[Block] = []
        self._switches: list[Switch] = []
        self._told: tuple[str, str | None] | None = None
        self._halves: list[int] = []

    def comment(self, line: Line) -> None:
        """Read what programs write into comments."""
        if off := _OFF.match(line.comment):
            what = f"`{short(off[1] + '=' + off[2])}` is commented out: its nodes are left out"
            hint = "remove the `#` where they are to be used; no size is too small here"
            self._roster.remark(line.number, what, hint)
            self._told = None
        if domain := _DOMAIN.search(line.comment):
            self._told = domain[1].lower(), domain[2]

    def line(self, line: Line) -> None:
        """Read one line of pairs."""
        pairs = {key.lower(): value.strip('"') for key, value in _PAIR.findall(line.text)}
        if rest := _PAIR.sub("", line.text).strip():
            hint = "lines of a topology.conf are pairs such as `BlockName=b1 Nodes=n[01-18]`"
            self._roster.wrong(line.number, f"`{short(rest)}` is not understood", hint)
        for key in pairs.keys() - _KNOWN:
            self._roster.remark(line.number, f"`{short(key)}` is not known here, and is left out")
        if "blockname" in pairs:
            self._block(line.number, pairs)
        elif "switchname" in pairs:
            self._switch(line.number, pairs)
            self._told = None
        elif "nodes" in pairs and "aggregatedblock" not in pairs:
            self._roster.wrong(line.number, "`Nodes=` belongs to no block and no switch", "put both on one line")
        self._sizes(line.number, pairs.get("blocksizes", ""))

    def finish(self) -> None:
        """Hand over all that was read."""
        if self._halves:
            what = f"comments tell the ClusterUUID of {count(len(self._halves), 'block')} without a CliqueId"
            self._roster.remark(self._halves[0], what, "a domain is both: it stays unknown until the nodes are asked")
        take_in(self._blocks, self._switches, self._roster)

    def _block(self, line: int, pairs: dict[str, str]) -> None:
        nodes = nodes_of(pairs.get("nodes", ""), line, self._roster)
        if not nodes and "nodes" not in pairs:
            self._roster.remark(line, f"block `{short(pairs['blockname'])}` has no nodes")
        domain = None
        if self._told is not None:
            uuid, clique = self._told
            domain = f"{uuid}.{clique}" if clique else None
            self._halves += [line] if clique is None else []
        self._told = None
        for name in self._names(pairs["blockname"], line):
            self._blocks.append(Block(name=name, line=line, nodes=nodes, domain=domain))

    def _names(self, text: str, line: int) -> tuple[str, ...]:
        """A name is one, though scontrol may fold several empty blocks into a range."""
        return self._roster.expand(text, line) if "[" in text else (text,)

    def _switch(self, line: int, pairs: dict[str, str]) -> None:
        children = self._roster.expand(pairs.get("switches", ""), line)
        # scontrol repeats at each switch all nodes below it.
        nodes = () if children else nodes_of(pairs.get("nodes", ""), line, self._roster)
        if children and "nodes" in pairs and "level" not in pairs:
            self._roster.remark(line, f"switch `{short(pairs['switchname'])}` has switches: its own nodes are left out")
        self._switches.append(Switch(name=pairs["switchname"], line=line, nodes=nodes, children=children))

    def _sizes(self, line: int, text: str) -> None:
        sizes = [number(part, 1, 10**6) for part in text.split(",")] if text else []
        if None in sizes:
            self._roster.remark(line, f"`BlockSizes={short(text)}` is not a list of sizes")
        else:
            block_sizes([size for size in sizes if size is not None], line, self._roster)
