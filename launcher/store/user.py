"""The person at the command line: login name and host."""

import os
import pwd
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A login name, and the host where the command was typed."""

    name: str
    host: str

    @classmethod
    def current(cls) -> "User":
        """Return the user of this process, by uid.

        Environment variables cannot change it.
        """
        uid = os.getuid()
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:  # a uid without a line in passwd(5)
            name = f"uid {uid}"
        return cls(name=name, host=os.uname().nodename)

    def __str__(self) -> str:
        return f"{self.name}@{self.host}"
