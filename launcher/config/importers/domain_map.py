"""Maps of hosts to ClusterUUIDs: `host: UUID` or `host,UUID,clique`."""

import re

from launcher.config.importers.collector import HostCollector, short
from launcher.config.importers.imported import ImportedHost
from launcher.config.importers.slurm_topology import UUID
from launcher.config.importers.text_lines import lines

LINE = re.compile(
    rf"[\"']?(?P<host>[^\s,;\"']+?)[\"']?(?:\s*[:,;=]\s*|\s+)[\"']?(?P<uuid>{UUID})[\"']?(?:[\s.,;:]+(?P<clique>[0-9]{{1,10}}))?[\"']?,?"
)
_ZERO = "00000000-0000-0000-0000-000000000000"


def read(text: str, collector: HostCollector) -> None:
    """Add the hosts to a collector.

    Each UUID is a rack; the domain is known if the CliqueId is given.
    """
    bare = 0
    for line in lines(text):
        if not line.text or line.text in "{}---":
            continue
        found = LINE.fullmatch(line.text)
        if found is None:
            collector.mistake(
                line.number, f"`{short(line.text)}` is not a host with its ClusterUUID", "write `host: UUID`"
            )
            continue
        uuid, clique = found["uuid"].lower(), found["clique"]
        for name in collector.expand(found["host"], line.number):
            if uuid == _ZERO:
                collector.warn(
                    line.number, f"`{short(name)}` has no rack: its NVLink ends at the tray (ClusterUUID of zeroes)"
                )
                collector.add(ImportedHost(name=name, line=line.number))
                continue
            bare += clique is None
            domain = f"{uuid}.{clique}" if clique else None
            collector.add(ImportedHost(name=name, line=line.number, rack=uuid, domain=domain))
    if bare:
        hint = "find domains with `nvlaunch inventory discover`; several partitions of a rack have the same ClusterUUID"
        collector.warn(0, "the file has no CliqueIds: racks are known by ClusterUUID, domains are unknown", hint)
