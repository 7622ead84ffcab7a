"""Ways to a machine: what a ProxyCommand of the user's own configuration says, and what of it may be shown."""

from pathlib import Path

import pytest

from launcher.core.model.secret_words import HIDDEN
from launcher.transport.ssh.config import Settings
from launcher.transport.ssh.operation import DroppedError, Operation
from launcher.transport.ssh.route import proxied


def ended(command: str) -> DroppedError:
    """How the way through a ProxyCommand fails that ends at once."""
    settings = Settings(
        address="10.0.0.7", hostname="n1.site", port=22, user="ann", known_as="n1", proxy_command=command
    )
    op = Operation("n1", 20.0)
    way = proxied(settings, op)
    try:
        with pytest.raises(DroppedError) as dropped:
            way.await_word(op, 10.0)
        return dropped.value
    finally:
        way.close()


@pytest.fixture
def proxy(tmp_path: Path) -> str:
    """A proxy that is refused, and says what it was given."""
    script = tmp_path / "proxy.sh"
    script.write_text('echo "407 $PROXY_PASSWORD: refused $1 for $2" >&2\nexit 1\n')
    return f"sh {script}"


def test_what_a_proxy_command_says_is_shown_without_the_words_of_its_own_command_line(proxy: str) -> None:
    dropped = ended(f"{proxy} ann:hunter2 n1.site")
    assert "the ProxyCommand ended" in dropped.message
    assert dropped.tail == (f"407 : refused {HIDDEN} for n1.site",)


def test_secrets_of_the_environment_are_not_shown_either(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXY_PASSWORD", "swordfish")
    assert ended(proxy).tail == (f"407 {HIDDEN}: refused  for",)
