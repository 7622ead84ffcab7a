"""What must not be stored of what a command of the user prints: its own words, and known secrets."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

HIDDEN = "<hidden>"
"""What stands for a secret."""
SHORTEST = 4
"""Characters. Shorter values occur everywhere; to remove them would reveal more than it hides."""

_WORDS = re.compile(
    "AUTH(ORIZATION)?|BEARER|COOKIE|CRED|JWT|KEY|OAUTH|PASS(CODE)?|PAT|PRIVATE|PSK|WEBHOOK"
    "|[A-Z]*(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|SSHPASS|(API|AUTH|ACCESS|SECRET|PRIVATE)KEY)"
)
"""Words in the names of secrets. The longer ones may have a prefix, as in `PGPASSWORD`."""
_BORDER = re.compile(r"[^A-Za-z]+|(?<=[a-z])(?=[A-Z])")
_PARTS = re.compile(r"[=:@/?&,;\s]+")
"""What separates parts of a word, as in `--password=x` and `https://admin:x@bmc/redfish`."""
# Words that tell what a power switch or a hook did, and are no secrets.
_TELLING = frozenset(("power", "chassis", "cycle", "reset", "status", "http", "https", "lanplus", "force"))


def is_secret_name(name: str) -> bool:
    """Whether a variable with this name is likely a secret.

    One of the words in it says so.
    """
    words = [word.upper() for word in _BORDER.split(name) if word]
    if len(words) > 1 and words[-1] == "PWD":  # alone it is the working directory
        return True
    return any(_WORDS.fullmatch(word.removesuffix("S")) or _WORDS.fullmatch(word) for word in words)


def secret_values(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of variables that are secrets by their names."""
    return tuple(value for name, value in variables.items() if is_secret_name(name))


def words_of(command: str) -> tuple[str, ...]:
    """Return the words of a command line, quotes closed or not."""
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return tuple(command.split())


def without_own_words(
    lines: Iterable[str], command: Sequence[str], secrets: Iterable[str] = (), names: AbstractSet[str] = frozenset()
) -> tuple[str, ...]:
    """Return what a command printed, without the words that it was started with, and without known secrets.

    Its program, its options and `names` (of the machine that it is about) stay.
    """
    words = {part for word in command[1:] for part in _own(word, names)} | set(secrets)
    longest_first = sorted((word for word in words if len(word) >= SHORTEST), key=len, reverse=True)
    if not longest_first:
        return tuple(lines)
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    return tuple(pattern.sub(HIDDEN, line) for line in lines)


def _own(word: str, names: AbstractSet[str]) -> Iterator[str]:
    """Yield a word and its parts: programs print either."""
    if word.startswith("-") and "=" not in word:
        return
    for part in (word, *_PARTS.split(word)):
        if not part.startswith("-") and part.lower() not in _TELLING and not any(name in part for name in names):
            yield part
