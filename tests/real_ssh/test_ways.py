"""Ways to machines and into them: the user's SSH configuration, jump hosts, agents, certificates."""

import os
import re
import resource
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.model.inventory import Access
from launcher.errors import RemoteError
from launcher.transport.ssh.shell import SshShell
from tests.real_ssh.conftest import AMPLE_S, access, nvlaunch
from tests.rig import Rig
from tests.rig.layer import make_key
from tests.rig.witness import until

HOSTS = 36


@pytest.fixture(scope="module")
def fleet() -> Iterator[Rig]:
    """Two racks behind a bastion that is as sshd is by default: `MaxStartups 10:30:100`."""
    with Rig(2, HOSTS // 2, name="sshjump", bastion=True) as made:
        yield made


def behind(fleet: Rig, name: str, **others: object) -> Access:
    return access(fleet, fleet[name], proxy_jump=f"ubuntu@{fleet.bastion.address}", **others)


def test_thirty_six_hosts_at_once_through_one_connection_to_the_bastion(shell: SshShell, fleet: Rig) -> None:
    def ask(name: str) -> str:
        return shell.run(behind(fleet, name), ["hostname"], timeout=AMPLE_S).stdout.decode().strip()

    with ThreadPoolExecutor(HOSTS) as pool:
        assert list(pool.map(ask, fleet.hosts)) == list(fleet.hosts)
    log = fleet.bastion.read("/var/log/auth.log")
    assert log.count("Accepted publickey") == 1
    assert "drop connection" not in log
    for host in fleet.hosts.values():
        assert host.read("/var/log/auth.log").count("Connection from") == 1


def test_faults_behind_a_bastion_are_told_from_those_of_the_bastion(
    shell: SshShell, fleet: Rig, tmp_path: Path
) -> None:
    def told(at: Access) -> tuple[str, str]:
        with pytest.raises(RemoteError) as caught:
            shell.run(at, ["true"], timeout=5)
        assert caught.value.node == at.address
        assert caught.value.hints
        return caught.value.stage, caught.value.message

    host, bastion = fleet["r01-n01"], fleet.bastion
    host.stop_sshd(sessions=True)
    assert told(behind(fleet, host.name)) == ("connect", f"jump host `{bastion.address}` cannot connect to port 22")
    host.start_sshd()
    host.drop(True)
    silent = f"jump host `{bastion.address}` gets no answer on port 22 within 5 s"
    assert told(behind(fleet, host.name)) == ("connect", silent)
    host.drop(False)
    host.tarpit(True)
    hung = "connected, but no SSH banner within 5 s"
    assert told(behind(fleet, host.name)) == ("connect", hung)
    host.tarpit(False)
    assert shell.run(behind(fleet, host.name), ["true"], timeout=AMPLE_S).status == 0
    nobody = replace(behind(fleet, host.name), proxy_jump=f"stranger@{bastion.address}")
    stage, words = told(nobody)
    assert stage == "auth"
    assert words.startswith(f"jump host `{bastion.address}`: permission denied for `stranger`; tried key")
    bastion.sshd_options(AllowTcpForwarding="no")
    other = SshShell(tmp_path / "other")
    with pytest.raises(RemoteError, match="refuses to forward connections") as caught:
        other.run(behind(fleet, host.name), ["true"], timeout=AMPLE_S)
    assert "AllowTcpForwarding" in caught.value.hints[0]
    other.close()
    bastion.sshd_options()


def test_a_bastion_that_drops_what_comes_at_once_costs_no_connection(fleet: Rig, home: Path, user: Path) -> None:
    fleet.bastion.sshd_options(MaxStartups="2:50:4", MaxSessions="2")
    shells = [SshShell(home) for _ in range(8)]
    jobs = [(shell, name) for shell in shells for name in list(fleet.hosts)[:4]]
    with ThreadPoolExecutor(len(jobs)) as pool:
        done = pool.map(lambda job: job[0].run(behind(fleet, job[1]), ["true"], timeout=40).status, jobs)
        assert list(done) == [0] * len(jobs)
    for shell in shells:
        shell.close()
    fleet.bastion.sshd_options()


def test_a_bastion_that_restarts_is_connected_to_again(shell: SshShell, fleet: Rig) -> None:
    at = behind(fleet, "r01-n02")
    assert shell.run(at, ["true"], timeout=AMPLE_S).status == 0
    fleet.bastion.stop_sshd(sessions=True)
    fleet.bastion.start_sshd()
    assert shell.run(at, ["true"], timeout=AMPLE_S).status == 0


def test_a_bastion_that_falls_silent_is_told_from_its_hosts_and_found_again(shell: SshShell, fleet: Rig) -> None:
    at, other = behind(fleet, "r01-n02"), behind(fleet, "r02-n04")
    assert shell.run(at, ["true"], timeout=AMPLE_S).status == 0
    fleet.bastion.drop(True)
    with pytest.raises(RemoteError) as caught:
        shell.run(other, ["true"], timeout=3)
    assert caught.value.message == f"no SSH handshake: jump host `{fleet.bastion.address}` does not answer any more"
    fleet.bastion.drop(False)
    for one in (at, other):
        assert shell.run(one, ["true"], timeout=AMPLE_S).status == 0


def test_a_jump_host_whose_key_has_changed_is_named_and_rekeyed_too(fleet: Rig, home: Path, user: Path) -> None:
    at, bastion = behind(fleet, "r01-n03"), fleet.bastion
    shell = SshShell(home)
    assert shell.run(at, ["true"], timeout=AMPLE_S).status == 0
    shell.close()
    bastion.rekey()
    shell = SshShell(home)
    with pytest.raises(RemoteError, match=f"jump host `{bastion.address}`: the host key has changed") as caught:
        shell.run(at, ["true"], timeout=AMPLE_S)
    shell.close()
    assert (caught.value.stage, caught.value.node) == ("host key", at.address)
    assert f"`nvlaunch hosts rekey {bastion.address}`" in caught.value.hints[0]
    (home / "fleet.yaml").write_text(fleet.inventory())
    done = nvlaunch(home, "hosts", "rekey", bastion.address, "-i", str(home / "fleet.yaml"), "--yes")
    assert done.returncode == 0, done.stderr
    shell = SshShell(home)
    assert shell.run(at, ["true"], timeout=AMPLE_S).status == 0
    shell.close()


def test_the_users_configuration_holds_as_openssh_reads_it(
    shell: SshShell, fleet: Rig, home: Path, user: Path, tmp_path: Path
) -> None:
    """Include, Match, two hops and a pattern: all that paramiko's own parser leaves out."""
    bastion, middle, target = fleet.bastion, fleet["r01-n01"], fleet["r02-n03"]
    folder = user / ".ssh" / "some folder"
    folder.mkdir()
    (folder / "racks.conf").write_text(
        f"Host tray-*\n  HostName {target.address}\n  HostKeyAlias tray-9\n"
        f"Host front\n  HostName {bastion.address}\nHost middle\n  HostName {middle.address}\n"
    )
    make_key(tmp_path / "wrong", "wrong")
    (user / ".ssh" / "config").write_text(
        f'Include "{folder}/*.conf"\n'
        f"Match originalhost tray-9 exec true\n  ProxyJump front,middle\n"
        f"Match exec false\n  Port 1\n"
        f"Match host {bastion.address},10.* !originalhost nothing\n  User ubuntu\n"
        f"Host *\n  IdentityFile {fleet.key}\n  IdentitiesOnly yes\n  ConnectTimeout 4\n"
    )
    at = Access(address="tray-9")
    assert shell.run(at, ["hostname"], timeout=AMPLE_S).stdout == b"r02-n03\n"
    names = {line.split()[0] for line in (home / "known_hosts").read_text().splitlines()}
    assert names == {bastion.address, middle.address, "tray-9"}
    assert "from 10." in middle.read("/var/log/auth.log")
    with pytest.raises(RemoteError, match=r"tried key `.*wrong`$"):
        shell.run(replace(at, identity_file=str(tmp_path / "wrong")), ["true"], timeout=AMPLE_S)
    with pytest.raises(RemoteError, match="permission denied for `stranger`"):
        shell.run(replace(at, user="stranger"), ["true"], timeout=AMPLE_S)
    with pytest.raises(RemoteError, match="cannot connect to port 2222"):
        shell.run(replace(at, port=2222), ["true"], timeout=AMPLE_S)


def test_a_broken_configuration_is_said_to_be_broken(shell: SshShell, user: Path) -> None:
    (user / ".ssh" / "config").write_text("Host *\n  Prot 22\n")
    with pytest.raises(RemoteError, match=r"OpenSSH refuses its configuration: .*") as caught:
        shell.run(Access(address="any"), ["true"], timeout=AMPLE_S)
    assert caught.value.stage == "resolve"
    assert "Bad configuration option: prot" in " ".join(caught.value.tail)


def test_a_proxy_command_is_the_users_own_and_says_why_it_fails(
    shell: SshShell, rig: Rig, user: Path, tmp_path: Path
) -> None:
    host, note = rig["r01-n01"], tmp_path / "note"
    program = "import os,socket,sys,threading; s=socket.create_connection((sys.argv[1],int(sys.argv[2]))); "
    program += "threading.Thread(target=lambda: [os.write(1,d) for d in iter(lambda: s.recv(65536), b'')], daemon=True)"
    program += ".start(); [s.sendall(d) for d in iter(lambda: os.read(0,65536), b'')]"
    (tmp_path / "nc.py").write_text(program)
    config = user / ".ssh" / "config"
    config.write_text(
        f"Host far\n  HostName {host.address}\n"
        f"  ProxyCommand sh -c 'echo %n %r >{note}; exec python3 {tmp_path}/nc.py %h %p'\n"
    )
    at = Access(address="far", user="ubuntu", identity_file=str(rig.key))
    assert shell.run(at, ["hostname"], timeout=AMPLE_S).stdout == b"r01-n01\n"
    assert note.read_text() == "far ubuntu\n"
    assert _children("nc.py")
    shell.close()
    until(lambda: not _children("nc.py"))
    (tmp_path / "fails.sh").write_text("echo no route for $1 >&2; exit 3\n")
    config.write_text(f"Host far\n  ProxyCommand sh {tmp_path}/fails.sh %h\n")
    other = SshShell(tmp_path / "home2")
    with pytest.raises(RemoteError) as caught:
        other.run(at, ["true"], timeout=4)
    assert (caught.value.stage, caught.value.tail) == ("connect", ("no route for far",))
    other.close()


def _children(word: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_text()
        except OSError:
            continue
        if word in line and not line.startswith(("sh\0", "/bin/sh\0")):
            found.append(line)
    return found


@pytest.fixture
def agent(tmp_path: Path, user: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An agent without keys."""
    path = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    until(path.exists)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
    yield path
    process.terminate()
    process.wait()


def test_a_key_with_a_passphrase_works_through_the_agent_alone(
    home: Path, rig: Rig, user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: Path
) -> None:
    host, locked = rig["r01-n01"], tmp_path / "locked"
    locked.write_bytes(rig.key.read_bytes())
    locked.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "open", "-f", str(locked)], check=True)
    at = access(rig, host, identity_file=str(locked))
    shell = SshShell(home)
    with pytest.raises(RemoteError) as caught:
        shell.run(at, ["true"], timeout=AMPLE_S)
    assert caught.value.message == f"permission denied for `ubuntu`; tried `{locked}` (has a passphrase)"
    assert "ssh-add" in caught.value.hints[0]
    ask = tmp_path / "ask"
    ask.write_text("#!/bin/sh\necho open\n")
    ask.chmod(0o755)
    env = {**os.environ, "SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": "none"}
    subprocess.run(["ssh-add", "-q", str(locked)], env=env, check=True, stdin=subprocess.DEVNULL)
    assert shell.run(at, ["true"], timeout=AMPLE_S).status == 0
    shell.close()
    (user / ".ssh" / "config").write_text("Host *\n  IdentityAgent none\n")
    shell = SshShell(home)
    with pytest.raises(RemoteError, match="has a passphrase"):
        shell.run(at, ["true"], timeout=AMPLE_S)
    shell.close()
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "nobody"))
    (user / ".ssh" / "config").write_text(f"Host *\n  IdentityAgent {agent}\n")
    shell = SshShell(home)
    assert shell.run(replace(at, identity_file=None), ["env"], timeout=AMPLE_S).stdout.find(b"SSH_AUTH_SOCK") == -1
    shell.close()


def test_named_keys_come_before_the_many_of_an_agent(
    shell: SshShell, rig: Rig, tmp_path: Path, agent: Path, user: Path
) -> None:
    """sshd hangs up after six."""
    for number in range(8):
        make_key(tmp_path / f"k{number}", f"k{number}")
        subprocess.run(["ssh-add", "-q", str(tmp_path / f"k{number}")], check=True)
    at = access(rig, rig["r01-n01"])
    with pytest.raises(RemoteError, match="then sshd closed the connection"):
        shell.run(replace(at, identity_file=str(tmp_path / "k7")), ["true"], timeout=AMPLE_S)
    assert shell.run(at, ["true"], timeout=AMPLE_S).status == 0


@pytest.mark.parametrize("named", [False, True], ids=["beside the key", "CertificateFile"])
def test_a_certificate_lets_in(rig: Rig, shell: SshShell, tmp_path: Path, user: Path, named: bool) -> None:
    host = rig["r01-n04"]
    make_key(tmp_path / "authority", "ca")
    make_key(tmp_path / "mine", "mine")
    sign = [
        "ssh-keygen",
        "-q",
        "-s",
        str(tmp_path / "authority"),
        "-I",
        "me",
        "-n",
        "ubuntu",
        str(tmp_path / "mine.pub"),
    ]
    subprocess.run(sign, check=True)
    if named:
        (tmp_path / "mine-cert.pub").rename(tmp_path / "elsewhere.pub")
        (user / ".ssh" / "config").write_text(f"Host *\n  CertificateFile {tmp_path}/elsewhere.pub\n")
    host.write("/etc/ssh/authority.pub", (tmp_path / "authority.pub").read_text())
    host.sshd_options(TrustedUserCAKeys="/etc/ssh/authority.pub", AuthorizedKeysFile="none")
    assert shell.run(access(rig, host, identity_file=str(tmp_path / "mine")), ["true"], timeout=AMPLE_S).status == 0
    host.sshd_options()


def test_an_sshd_that_takes_no_keys_is_not_asked_for_a_password(shell: SshShell, rig: Rig, user: Path) -> None:
    host = rig["r01-n04"]
    host.sshd_options(PubkeyAuthentication="no", PasswordAuthentication="yes")
    with pytest.raises(RemoteError, match="cannot log in with a key: sshd accepts password"):
        shell.run(access(rig, host), ["true"], timeout=AMPLE_S)
    host.sshd_options()


def test_without_openssh_the_configuration_is_read_as_far_as_paramiko_can(
    rig: Rig, home: Path, user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    host = rig["r01-n01"]
    (user / ".ssh" / "config").write_text(
        f"Host it\n  HostName {host.address}\n  User ubuntu\n  IdentityFile {rig.key}\n"
    )
    shell = SshShell(home)
    assert shell.run(Access(address="it"), ["hostname"], timeout=AMPLE_S).stdout == b"r01-n01\n"
    shell.close()


def test_openssh_is_asked_once_a_host_and_fast(
    user: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from launcher.transport.ssh.config import Resolver
    from launcher.transport.ssh.operation import Operation

    (tmp_path / "bin").mkdir()
    counted = tmp_path / "bin" / "ssh"
    counted.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nexec /usr/bin/ssh "$@"\n')
    counted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    resolver = Resolver(home)
    places = [Access(address=f"r{rack:02}-n{tray:02}", proxy_jump="front") for rack in range(8) for tray in range(16)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with ThreadPoolExecutor(64) as pool:
        list(pool.map(lambda at: resolver.resolve(at, Operation("x", 60)), places * 2))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    hosts = re.findall(r"-- (\S+)$", (tmp_path / "calls").read_text(), re.MULTILINE)
    assert len(set(hosts)) == 129
    assert hosts.count("front") == 1
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used < 3, "seconds of CPU, so that others at work do not count; a third of it is the counting"
