"""The limits of a login on a node: open files, locked memory, processes."""

from collections.abc import Mapping
from dataclasses import dataclass

from launcher.probe.results import ProbeResult, Unknown, first_words, number, read_object, string

MAX_GROUPS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLimit:
    """The soft and the hard limit of a process; -1: no limit.

    `source` is the rule that set it, as `FILE:LINE`, `sshd` if it is that of the SSH server, or empty if neither is.
    """

    soft: int
    hard: int
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimit:
    """The limit of a control group on processes and threads, and how many it has."""

    name: str
    limit: int
    used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """All limits of a login. `threads` are those that the user has now; the limits of a process do not hold for root.

    `cores` are those that the login may use.
    """

    open_files: UserLimit
    locked_memory: UserLimit
    processes: UserLimit
    groups: tuple[GroupLimit, ...] = ()
    threads: int = 0
    cores: int = 1
    root: bool = False

    @property
    def room(self) -> tuple[int, str] | None:
        """Return how many more processes and threads may start, and what limits them; None without a limit."""
        found = [(one.limit - one.used, f"`pids.max` of `{one.name}` is {one.limit}") for one in self.groups]
        hard = self.processes.hard
        if hard >= 0 and not self.root:
            found.append((hard - self.threads, f"`ulimit -Hu` is {hard}"))
        return min(found, default=None)


def read_limits(result: ProbeResult | None) -> Limits | Unknown:
    """Return the limits of a login."""
    found = read_object(result, "the limit check")
    if isinstance(found, Unknown):
        return found
    groups, user = found.get("groups"), found.get("user")
    if not isinstance(user, dict) or not all(isinstance(user.get(name), dict) for name in _NAMES):
        return Unknown(why="the output of the limit check cannot be parsed")
    open_files, locked_memory, processes = (_limit(user[name]) for name in _NAMES)
    return Limits(
        open_files=open_files,
        locked_memory=locked_memory,
        processes=processes,
        groups=tuple(
            GroupLimit(
                name=first_words(string(item, "name")), limit=int(number(item, "limit")), used=int(number(item, "used"))
            )
            for item in (groups if isinstance(groups, list) else [])[:MAX_GROUPS]
            if isinstance(item, dict)
        ),
        threads=int(number(found, "threads")),
        cores=max(1, int(number(found, "cores"))),
        root=found.get("root") is True,
    )


_NAMES = ("nofile", "memlock", "nproc")


def _limit(item: Mapping[str, object]) -> UserLimit:
    source = string(item, "source")
    return UserLimit(
        soft=int(number(item, "soft")), hard=int(number(item, "hard")), source=first_words(source) if source else ""
    )
