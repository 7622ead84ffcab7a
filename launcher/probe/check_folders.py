"""Checks that a run can make its files on a node: one was made in each folder."""

from collections.abc import Iterator

from launcher.core.model.inventory import Node
from launcher.probe.findings import Fact, Finding, bad, cannot_tell, good
from launcher.probe.folders import ENVIRONMENTS, MEMORY, FailedStep, FolderTrial
from launcher.probe.node_facts import Facts
from launcher.probe.results import Unknown

_HINTS = {
    "ENOSPC": "the file system is full, or has no free inodes",
    "EDQUOT": "this user's quota is used up",
    "EROFS": "the file system is read-only",
    "EACCES": "this user may not write there",
    "EPERM": "this user may not write there",
    "ENOENT": "it is a link to nothing",
    "ENOTDIR": "it is not a folder",
}
_ELSEWHERE = ("EACCES", "ENOENT", "ENOTDIR", "EROFS")
"""Without memory to write to, secrets are kept with the sockets; Ray keeps its objects on disk."""


def folders(facts: Facts, _node: Node) -> Finding:
    """Check that each folder that a run uses can be written to, and executed from where that is needed."""
    hidden = [one.why for one in (*facts.folders, facts.lease_place) if isinstance(one, Unknown)]
    stopping: list[str] = []
    others: list[str] = []
    for one in facts.folders:
        if isinstance(one, FolderTrial):
            for stops, message in _troubles(one):
                (stopping if stops else others).append(message)
    if not isinstance(facts.lease_place, Unknown) and facts.lease_place.usable is None:
        failed = facts.lease_place.failed
        stopping += [f"no lease can be taken: `{one.path}`: {_why(one)}" for one in failed[:1]]
    wrong = [*stopping, *others]
    if wrong:
        return bad(Fact.FOLDERS, "; ".join(wrong[:2]), *wrong, stops=bool(stopping))
    if hidden or not facts.folders:
        return cannot_tell(Fact.FOLDERS, "; ".join(hidden[:2]) or "no folder was tried", stops=True)
    return good(Fact.FOLDERS, f"files can be made in all {len(facts.folders)}")


def _troubles(one: FolderTrial) -> Iterator[tuple[bool, str]]:
    """Yield what failed in a folder, and whether nothing can start then."""
    where = f"`{one.path}`" if one.at in (one.path, "") else f"`{one.path}` (`{one.at}`)"
    for failed in one.failed:
        if failed.step == "execute":
            needed = one.path == ENVIRONMENTS
            refused = f"programs cannot be executed in {where}: {failed.message.lower()} ({failed.errno})"
            mount = f", mount `{one.mount}`" if one.mount else ""
            what = "set `python:` to an interpreter elsewhere" if needed else "remount it without `noexec`"
            yield needed, f"{refused}{mount}; {what}"
        elif failed.step == "socket":
            yield True, f"no socket can be made in {where}: {failed.message.lower()} ({failed.errno})"
        else:
            yield (
                one.path != MEMORY or failed.errno not in _ELSEWHERE,
                f"cannot {failed.step} in {where}: {_why(failed)}",
            )


def _why(failed: FailedStep) -> str:
    hint = _HINTS.get(failed.errno)
    return f"{failed.message.lower()} ({failed.errno})" + (f": {hint}" if hint else "")
