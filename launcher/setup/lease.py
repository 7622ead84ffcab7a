"""What the holder of a node's lease writes into it, and how it is read."""

import re
from dataclasses import dataclass

_SINCE = " since "
_ID = re.compile(r"^run `[^`]*` \(([^\s()]+)\) of ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The holder of a node's lease.

    `who` is run and owner; `run` is the id of the run, `since` the node's time, "" if unknown.
    """

    who: str
    run: str
    since: str

    def __str__(self) -> str:
        """Return all that is known of it."""
        return f"{self.who}{_SINCE}{self.since}" if self.since else self.who


def describe_holder(name: str, run: str, owner: str) -> str:
    """Return the holder of a lease as text; the agent adds since when."""
    return f"run `{name}` ({run}) of {owner}"


def read_holder(words: str) -> Holder:
    """Return the holder from the text in a lease, whatever wrote it."""
    who, _, since = " ".join(words.split()).partition(_SINCE)
    found = _ID.match(who)
    return Holder(who=who, run=found[1] if found else "", since=since)
