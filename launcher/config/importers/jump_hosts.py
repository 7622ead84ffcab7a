"""Find the jump host in options of OpenSSH."""

import re
import shlex

from launcher.config.schema.patterns import JUMP

_FORWARD = re.compile(r"\[?%h\]?:%p")
_FLAGS = {"-q", "-A", "-T", "-x"}
_VALUED = {"-o", "-i", "-F", "-l", "-p", "-W"}


MAX_LINE = 20_000
"""Characters of a line that is split as a shell would; the time of `shlex` grows with the square of the length."""


def split(text: str) -> list[str]:
    """Return the words of a shell command.

    It is split at spaces if its quotes are not balanced.
    """
    try:
        return shlex.split(text) if len(text) <= MAX_LINE else text.split()
    except ValueError:
        return text.split()


def from_command(command: str) -> str | None:
    """Return the jump host of a ProxyCommand `ssh -W %h:%p HOST`.

    None for any other command.
    """
    words = split(command)
    if not words or words[0].rsplit("/", 1)[-1] != "ssh":
        return None
    target, port, user, forwards = None, None, None, False
    rest = iter(words[1:])
    for word in rest:
        if word in _VALUED:
            value = next(rest, "")
            forwards |= word == "-W" and bool(_FORWARD.fullmatch(value))
            port = value if word == "-p" else port
            user = value if word == "-l" else user
        elif word.startswith("-"):
            if word not in _FLAGS:
                return None
        elif target is not None:
            return None
        else:
            target = word
    if target is None or not forwards:
        return None
    jump = f"{user}@{target}" if user and "@" not in target else target
    jump = f"{jump}:{port}" if port else jump
    return jump if re.fullmatch(JUMP, jump) else None


def _pair(option: str) -> tuple[str, str]:
    """Return keyword and value of an option, separated by `=` or spaces."""
    found = re.fullmatch(r"\s*(\w+)\s*[=\s]\s*(.*?)\s*", option, re.DOTALL)
    return (found[1].lower(), found[2]) if found else (option.lower(), "")


def from_options(text: str) -> tuple[str | None, tuple[str, ...]]:
    """Return the jump host in the options of an ssh command, and the other options."""
    words = iter(split(text))
    jump: str | None = None
    rest: list[str] = []
    for word in words:
        if word == "-J":
            jump = next(words, None)
        elif word.startswith("-o"):
            option = word[2:] or next(words, "")
            key, value = _pair(option)
            found = value if key == "proxyjump" else from_command(value) if key == "proxycommand" else None
            jump = found or jump
            rest += [] if found else [option]
        else:
            rest.append(word)
    return jump, tuple(rest)
