"""Host keys: learnt once, compared ever after, replaced by word of a person alone."""

import base64
import hmac
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.model.inventory import Access
from launcher.errors import RemoteError
from launcher.transport.ssh.operation import HostKeyError
from launcher.transport.ssh.shell import SshShell
from tests.real_ssh.conftest import AMPLE_S, access, nvlaunch
from tests.rig import Host, Rig
from tests.rig.layer import fingerprint


@pytest.fixture
def host(rig: Rig) -> Iterator[Host]:
    """A host whose key may change."""
    taken = rig["r01-n03"]
    yield taken
    taken.power_cut()
    taken.boot(reimaged=True)


def ok(shell: SshShell, at: Access) -> bool:
    return shell.run(at, ["true"], timeout=AMPLE_S).status == 0


def refused(home: Path, at: Access) -> HostKeyError:
    shell = SshShell(home)
    try:
        with pytest.raises(HostKeyError) as caught:
            shell.run(at, ["true"], timeout=AMPLE_S)
    finally:
        shell.close()
    assert caught.value.stage == "host key"
    return caught.value


def fresh(home: Path, at: Access) -> bool:
    shell = SshShell(home)
    try:
        return ok(shell, at)
    finally:
        shell.close()


def test_a_key_is_learnt_into_a_file_of_our_own(shell: SshShell, rig: Rig, home: Path, user: Path) -> None:
    host = rig["r01-n01"]
    assert ok(shell, access(rig, host))
    own = home / "known_hosts"
    assert own.read_text() == f"{host.address} {host.host_key}\n"
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    assert list((user / ".ssh").iterdir()) == [], "the user's own folder is read, never written"


def test_many_launchers_learn_at_once_and_none_is_lost(rig: Rig, home: Path, user: Path) -> None:
    shells = [SshShell(home) for _ in range(6)]
    jobs = [(shell, access(rig, host)) for shell in shells for host in rig.hosts.values()]
    with ThreadPoolExecutor(len(jobs)) as pool:
        assert all(pool.map(lambda job: ok(*job), jobs))
    for shell in shells:
        shell.close()
    lines = (home / "known_hosts").read_text().splitlines()
    assert sorted(lines) == sorted(f"{host.address} {host.host_key}" for host in rig.hosts.values())
    assert [path.name for path in home.iterdir() if path.name.startswith(".")] == []


def test_a_changed_key_is_refused_with_both_and_rekeyed_by_word(rig: Rig, host: Host, home: Path, user: Path) -> None:
    at = access(rig, host)
    assert fresh(home, at)
    old = host.fingerprint
    host.power_cut()
    host.boot(reimaged=True)
    error = refused(home, at)
    assert (error.expected, error.presented) == ((old,), host.fingerprint)
    assert old in error.message
    assert host.fingerprint in error.message
    assert f"`nvlaunch hosts rekey {host.address}`" in error.hints[0]

    inventory = home / "fleet.yaml"
    inventory.write_text(rig_inventory(rig))
    done = nvlaunch(home, "hosts", "rekey", host.name, "-i", str(inventory))
    assert done.returncode == 2, done.stderr
    assert "without a terminal" in done.stderr
    assert old in done.stderr
    assert host.fingerprint in done.stderr
    refused(home, at)
    done = nvlaunch(home, "hosts", "rekey", host.name, "-i", str(inventory), "--yes")
    assert done.returncode == 0, done.stderr
    assert fresh(home, at)
    assert (home / "known_hosts").read_text() == f"{host.address} {host.host_key}\n"
    done = nvlaunch(home, "hosts", "rekey", "r01-n[01-04]", "-i", str(inventory), "--yes")
    assert done.returncode == 0, done.stderr
    assert f"r01-n03: {host.fingerprint} is already known" in done.stderr


def test_an_old_key_in_the_users_own_file_is_named_and_left(rig: Rig, host: Host, home: Path, user: Path) -> None:
    at, own = access(rig, host), user / ".ssh" / "known_hosts"
    own.write_text(f"{host.address} {host.host_key}\n")
    before = own.read_bytes()
    old = host.fingerprint
    host.power_cut()
    host.boot(reimaged=True)
    error = refused(home, at)
    assert f"{old} is known from `{own}`" in error.message
    home.mkdir(exist_ok=True)
    inventory = home / "fleet.yaml"
    inventory.write_text(rig_inventory(rig))
    done = nvlaunch(home, "hosts", "rekey", host.name, "-i", str(inventory), "--yes")
    assert done.returncode == 0, done.stderr
    assert f"`ssh-keygen -R {host.address} -f {own}`" in done.stderr
    assert own.read_bytes() == before
    assert fresh(home, at)


def test_a_pin_is_the_only_key(rig: Rig, host: Host, home: Path, user: Path) -> None:
    at = access(rig, host, host_key=host.fingerprint)
    assert fresh(home, at)
    assert not (home / "known_hosts").exists(), "a pinned key needs no file"
    other = rig["r01-n01"].fingerprint
    error = refused(home, replace(at, host_key=other))
    assert error.message == f"the host key has changed to {host.fingerprint}: the inventory pins {other}"
    assert "set the new `host_key` in the inventory" in error.hints[0]
    inventory = home / "fleet.yaml"
    home.mkdir(exist_ok=True)
    inventory.write_text(rig_inventory(rig, pinned={host.name: other}))
    done = nvlaunch(home, "hosts", "rekey", host.name, "-i", str(inventory), "--yes")
    assert done.returncode == 2
    assert "pins" in done.stderr


def test_a_pin_may_be_of_any_of_the_hosts_keys(rig: Rig, host: Host, home: Path, user: Path) -> None:
    host.run(["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", "/etc/ssh/rig_rsa"])
    host.sshd_options(HostKey="/etc/ssh/rig_rsa")
    public = host.read("/etc/ssh/rig_rsa.pub")
    assert fresh(home, access(rig, host, host_key=fingerprint(public)))
    assert fresh(home, access(rig, host, host_key=host.fingerprint))
    (user / ".ssh" / "known_hosts").write_text(f"{host.address} {' '.join(public.split()[:2])}\n")
    assert fresh(home, access(rig, host)), "the type that is known is asked for first"


def test_the_users_files_are_read_in_all_their_forms(rig: Rig, host: Host, home: Path, user: Path) -> None:
    own, name, wrong = user / ".ssh" / "known_hosts", host.address, rig["r01-n01"].host_key
    salt = os.urandom(20)
    digest = hmac.digest(salt, name.encode(), "sha1")
    hashed = "|1|" + "|".join(base64.b64encode(part).decode() for part in (salt, digest))
    strict = user / ".ssh" / "config"
    strict.write_text("Host *\n  StrictHostKeyChecking yes\n")
    for names in (hashed, f"other,{name}", "10.*", f"{name.rsplit('.', 1)[0]}.?", name.upper()):
        own.write_text(f"# comment\n\nrubbish\n{names} {host.host_key} a comment\n")
        assert fresh(home, access(rig, host)), names
    for names in ("10.*,!" + name, f"[{name}]:2222", "other"):
        own.write_text(f"{names} {host.host_key}\n")
        assert "unknown host key" in refused(home, access(rig, host)).message, names
    own.write_text(f"{hashed} {wrong}\n")
    assert "has changed" in refused(home, access(rig, host)).message
    own.write_text(f"{name} {host.host_key}\n@revoked * {host.host_key}\n")
    assert "is revoked" in refused(home, access(rig, host)).message
    assert "is revoked" in refused(home, access(rig, host, host_key=host.fingerprint)).message


def test_a_certificate_authority_is_no_reason_to_learn_a_key(rig: Rig, host: Host, home: Path, user: Path) -> None:
    (user / ".ssh" / "known_hosts").write_text(f"@cert-authority 10.* {rig['r01-n01'].host_key}\n")
    error = refused(home, access(rig, host))
    assert "@cert-authority" in error.message
    assert "host_key" in error.hints[0]


@pytest.mark.parametrize("word", ["yes", "ask"])
def test_strict_checking_lets_no_key_be_learnt_and_no_checking_is_not_had(
    rig: Rig, host: Host, home: Path, user: Path, word: str
) -> None:
    config = user / ".ssh" / "config"
    config.write_text(f"Host 10.*\n  StrictHostKeyChecking {word}\n")
    error = refused(home, access(rig, host))
    assert error.message.startswith(f"unknown host key {host.fingerprint}")
    config.write_text("Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n")
    assert fresh(home, access(rig, host))
    host.power_cut()
    host.boot(reimaged=True)
    refused(home, access(rig, host))


def test_a_first_contact_says_what_it_accepted_and_a_strict_inventory_accepts_nothing(
    rig: Rig, home: Path, user: Path
) -> None:
    home.mkdir()
    inventory, count = home / "fleet.yaml", len(rig.hosts)
    inventory.write_text(rig_inventory(rig) + "host_keys: strict\n")
    said = nvlaunch(home, "doctor", "-i", str(inventory)).stdout
    assert "unknown host key SHA256:" in said
    assert not (home / "known_hosts").exists()
    inventory.write_text(rig_inventory(rig))
    said = nvlaunch(home, "doctor", "-i", str(inventory)).stderr
    assert f"accepted {count} unknown host keys, kept in `{home}/known_hosts`" in said
    assert sum(host.fingerprint in said for host in rig.hosts.values()) == (4 if count > 5 else count)
    assert "accepted" not in nvlaunch(home, "doctor", "-i", str(inventory)).stderr


def rig_inventory(rig: Rig, pinned: dict[str, str] | None = None) -> str:
    """Return the inventory of a rig without its pins, or with others."""
    lines = []
    for line in rig.inventory().splitlines():
        name = line.strip().split(":")[0]
        for host in rig.hosts.values():
            if host.name == name:
                pin = (pinned or {}).get(name)
                line = line.replace(f', "host_key": "{host.fingerprint}"', f', "host_key": "{pin}"' if pin else "")
        lines.append(line)
    return "\n".join(lines) + "\n"


def test_rekey_says_what_is_wrong(rig: Rig, host: Host, home: Path, user: Path) -> None:
    home.mkdir()
    inventory = home / "fleet.yaml"
    inventory.write_text(rig_inventory(rig))
    done = nvlaunch(home, "hosts", "rekey", "r09-n01", "-i", str(inventory))
    assert (done.returncode, done.stdout) == (2, "")
    assert "`r09-n01`" in done.stderr
    host.stop_sshd()
    done = nvlaunch(home, "hosts", "rekey", host.name, "-i", str(inventory), "-y")
    assert done.returncode == 4
    assert "port 22 refuses connections" in done.stderr
    with pytest.raises(RemoteError):
        fresh(home, access(rig, host))
