"""Maps of hosts to ClusterUUIDs, as scripts around `nvidia-smi` write them: `host: UUID`, `host,UUID,clique`."""

import re

from launcher.config.importers.found import Host
from launcher.config.importers.roster import Roster, short
from launcher.config.importers.slurm import UUID
from launcher.config.importers.text import lines

LINE = re.compile(
    rf"[\"']?(?P<host>[^\s,;\"']+?)[\"']?(?:\s*[:,;=]\s*|\s+)[\"']?(?P<uuid>{UUID})[\"']?(?:[\s.,;:]+(?P<clique>[0-9]{{1,10}}))?[\"']?,?"
)
_ZERO = "00000000-0000-0000-0000-000000000000"


def read(text: str, roster: Roster) -> None:
    """Add the hosts to a roster. One UUID is taken for one rack; the domain is known where the clique id is."""
    bare = 0
    for line in lines(text):
        if not line.text or line.text in "{}---":
            continue
        found = LINE.fullmatch(line.text)
        if found is None:
            roster.wrong(line.number, f"`{short(line.text)}` is not a host with its ClusterUUID", "write `host: UUID`")
            continue
        uuid, clique = found["uuid"].lower(), found["clique"]
        for name in roster.expand(found["host"], line.number):
            if uuid == _ZERO:
                roster.remark(
                    line.number, f"`{short(name)}` is in no NVLink domain that leaves the tray (UUID of zeroes)"
                )
                roster.add(Host(name=name, line=line.number))
                continue
            bare += clique is None
            domain = f"{uuid}.{clique}" if clique else None
            roster.add(Host(name=name, line=line.number, rack=uuid, domain=domain))
    if bare:
        hint = "`nvlaunch inventory discover` asks the nodes; a rack that is cut into partitions has one UUID"
        roster.remark(
            0, "the file tells no CliqueId: racks are divided by ClusterUUID, their domains stay unknown", hint
        )
