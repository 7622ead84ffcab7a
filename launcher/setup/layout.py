"""The paths of a run on a node.

One type owns every path; the programs on the node get them from here.
"""

from dataclasses import dataclass
from hashlib import sha256

from launcher.core.model.actions import Unit
from launcher.core.model.run import Member, RunId

PACKAGE = "nvlaunch_runtime"
HEAD_PLACE = "@head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The folders of one unit of a run on a machine.

    `root` may be relative to the login's home. `former` says where other runs of the place lie: a folder of runs, and
    what to enter in each. `scratch` is short and outside: the path of a Unix socket has 107 bytes at most, and Ray adds
    some 70.
    """

    run: RunId
    place: str
    root: str
    former: tuple[str, str]

    @property
    def scratch(self) -> str:
        """Return the short folder for sockets and Ray's session; removed at the end."""
        return f"/tmp/nvl-{sha256(f'{self.run}:{self.place}'.encode()).hexdigest()[:8]}"  # noqa: S108

    @property
    def socket(self) -> str:
        """Return the socket of the agent."""
        return f"{self.scratch}/agent.sock"

    @property
    def ray(self) -> str:
        """Return Ray's `--temp-dir`."""
        return f"{self.scratch}/ray"

    @property
    def package(self) -> str:
        """Return the folder of our programs."""
        return f"{self.root}/{PACKAGE}"

    @staticmethod
    def run_script(group: str) -> str:
        """Return the user's `run:` of a group, below the root."""
        return f"scripts/{group}.run.sh"

    @staticmethod
    def setup_script(group: str) -> str:
        """Return the user's `setup:` of a group, below the root."""
        return f"scripts/{group}.setup.sh"

    def mark(self, generation: int, member: Member, attempt: int) -> str:
        """Return the mark that a rank and its children carry."""
        return f"{self.run}:{self.place}:{generation}:{member.name}:{attempt}"


def place(node: str | None, unit: Unit) -> str:
    """Return the name of a unit in marks.

    The node's, or `@head`: a run has one head.
    """
    return HEAD_PLACE if unit is Unit.HEAD or node is None else node


def local(home: str, run: RunId, where: str) -> Layout:
    """Return the layout of a local node, in the launcher's own home."""
    base = f"{home}/nodes/{where}"
    return Layout(run=run, place=where, root=f"{base}/{run}", former=(base, ""))


def remote(run: RunId, where: str) -> Layout:
    """Return the layout on a machine of its own."""
    base = ".nvlaunch/runs"
    return Layout(run=run, place=where, root=f"{base}/{run}/{where}", former=(base, where))
