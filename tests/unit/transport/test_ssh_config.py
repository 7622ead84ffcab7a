"""What is made of a machine's access and of a configuration. paramiko reads it here: no OpenSSH is on the PATH."""

import getpass
from pathlib import Path

import pytest

from launcher.core.model.inventory import Access
from launcher.errors import RemoteError
from launcher.transport.ssh.config import CONNECT_S, Resolver, Settings, expand
from launcher.transport.ssh.operation import Operation


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    return tmp_path


def resolve(home: Path, at: Access, config: str = "") -> Settings:
    (home / ".ssh" / "config").write_text(config)
    return Resolver(home / "nvlaunch").resolve(at, Operation(at.address, 5))


def test_nothing_said_is_what_ssh_takes(home: Path) -> None:
    found = resolve(home, Access(address="R07-n01"))
    assert (found.hostname, found.port, found.user, found.known_as) == ("r07-n01", 22, getpass.getuser(), "r07-n01")
    assert (found.connect_s, found.agent, found.via, found.strict) == (CONNECT_S, "/run/agent", None, False)
    assert found.known_hosts[:2] == (f"{home}/.ssh/known_hosts", f"{home}/.ssh/known_hosts2")
    assert f"{home}/.ssh/id_ed25519" in found.identities


def test_the_inventory_wins(home: Path) -> None:
    config = "Host n1\n HostName 10.0.0.1\n User a\n Port 1\n IdentityFile ~/a\n ProxyJump j\n"
    at = Access(address="n1", user="b", port=2, identity_file="~/b", proxy_jump="k", host_key="SHA256:x")
    found = resolve(home, at, config)
    assert (found.hostname, found.user, found.port, found.known_as) == ("10.0.0.1", "b", 2, "[10.0.0.1]:2")
    assert found.identities == (f"{home}/b",)
    assert found.pin == "SHA256:x"
    assert found.via is not None
    assert (found.via.address, found.via.identities) == ("k", (f"{home}/b",))
    found = resolve(home, Access(address="n1"), config)
    assert (found.user, found.port, found.identities) == ("a", 1, (f"{home}/a",))
    assert found.via is not None
    assert found.via.address == "j"


def test_hosts_on_the_way_in_order_each_with_its_own(home: Path) -> None:
    config = "Host b\n User bee\nHost front\n ProxyJump door\n"
    found = resolve(home, Access(address="n1", proxy_jump="me@front:2200,b,[fe80::1]:23"), config)
    chain = []
    while found.via is not None:
        found = found.via
        chain.append((found.user, found.hostname, found.port))
    me = getpass.getuser()
    assert chain == [(me, "fe80::1", 23), ("bee", "b", 22), ("me", "front", 2200), (me, "door", 22)]


def test_jump_hosts_that_go_round_in_circles_end(home: Path) -> None:
    with pytest.raises(RemoteError, match="form a loop"):
        resolve(home, Access(address="n1"), "Host *\n ProxyJump front\n")


def test_an_inventory_names_no_program(home: Path) -> None:
    config = "Host n1\n ProxyCommand run %h:%p as %r from %n, %%\n"
    found = resolve(home, Access(address="n1"), config)
    assert found.proxy_command == f"run n1:22 as {getpass.getuser()} from n1, %"
    assert resolve(home, Access(address="n1", proxy_jump="front"), config).proxy_command is None


@pytest.mark.parametrize(
    ("word", "strict"), [("yes", True), ("ask", True), ("accept-new", False), ("no", False), ("off", False)]
)
def test_strictness(home: Path, word: str, strict: bool) -> None:
    assert resolve(home, Access(address="n1"), f"Host *\n StrictHostKeyChecking {word}\n").strict is strict


@pytest.mark.parametrize("word", ["accept-new", "no"])
def test_an_inventory_may_be_stricter_than_openssh_at_jump_hosts_too(home: Path, word: str) -> None:
    (home / ".ssh" / "config").write_text(f"Host *\n StrictHostKeyChecking {word}\n")
    at = Access(address="n1", proxy_jump="front")
    found = Resolver(home / "nvlaunch", strict=True).resolve(at, Operation("n1", 5))
    assert found.via
    assert (found.strict, found.via.strict) == (True, True)


def test_other_settings(home: Path) -> None:
    config = (
        "Host *\n HostKeyAlias Rack\n ConnectTimeout 3\n IdentitiesOnly yes\n IdentityAgent none\n"
        f" UserKnownHostsFile ~/kh {home}/%h\n GlobalKnownHostsFile none\n"
        " CertificateFile %d/c-%i\n IdentityFile ~/%u/%k\n"
    )
    found = resolve(home, Access(address="n1", port=99), config)
    assert (found.known_as, found.connect_s, found.agent_only_named, found.agent) == ("rack", 3, True, None)
    assert found.known_hosts == (f"{home}/kh", f"{home}/n1")
    assert found.identities == (f"{home}/{getpass.getuser()}/rack",)
    assert found.certificates[0].startswith(f"{home}/c-")


@pytest.mark.parametrize("word", ["-x", "", " ", "a b", "a\tb", "a\x00", "a;b", "a`b", "a'b", "$x", "a\u202eb", "a/b"])
def test_addresses_that_are_none(home: Path, word: str) -> None:
    with pytest.raises(RemoteError, match="invalid "):
        resolve(home, Access(address=word))


@pytest.mark.parametrize("word", ["-l", "", "a b", "a\n", "a;b", "a|b", "$(a)"])
def test_users_that_are_none(home: Path, word: str) -> None:
    with pytest.raises(RemoteError, match="invalid "):
        resolve(home, Access(address="n1", user=word))
    with pytest.raises(RemoteError, match="invalid "):
        resolve(home, Access(address="n1", proxy_jump=f"{word}@front" if word else "@front"))


@pytest.mark.parametrize("word", ["r07-n01", "10.0.0.1", "fe80::1%eth0", "a_b.example", "::1"])
def test_addresses_that_are_some(home: Path, word: str) -> None:
    assert resolve(home, Access(address=word)).hostname == word


def test_tokens_that_are_not_ours_stay() -> None:
    assert expand("%h %% %C %", {"h": "x", "%": "%"}) == "x % %C %"
