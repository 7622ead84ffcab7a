"""Which variables hold secrets, by their names."""

import re

_WORDS = re.compile(
    "AUTH(ORIZATION)?|BEARER|COOKIE|CRED|JWT|KEY|OAUTH|PASS(CODE)?|PAT|PRIVATE|PSK|WEBHOOK"
    "|[A-Z]*(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|SSHPASS|(API|AUTH|ACCESS|SECRET|PRIVATE)KEY)"
)
"""Words in the names of secrets. The longer ones may have a prefix, as in `PGPASSWORD`."""

_BORDER = re.compile(r"[^A-Za-z]+|(?<=[a-z])(?=[A-Z])")


def is_secret_name(name: str) -> bool:
    """Whether a variable with this name is likely a secret.

    One of the words in it says so.
    """
    words = [word.upper() for word in _BORDER.split(name) if word]
    if len(words) > 1 and words[-1] == "PWD":  # alone it is the working directory
        return True
    return any(_WORDS.fullmatch(word.removesuffix("S")) or _WORDS.fullmatch(word) for word in words)
