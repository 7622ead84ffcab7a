"""What is said of machines that cannot be reached, how soon, and that the next operation finds them again."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.model.inventory import Access
from launcher.errors import RemoteError
from launcher.transport.ssh.shell import SshShell
from tests.real_ssh.conftest import AMPLE_S, access
from tests.rig import Host, Rig
from tests.rig.layer import make_key
from tests.rig.witness import until


@pytest.fixture
def host(rig: Rig) -> Iterator[Host]:
    """A host to break; a test that fails half-way leaves it to the next one as new."""
    taken = rig["r01-n02"]
    yield taken
    if not taken.on or taken.run(["test", "-e", "/run/sshd.pid"], check=False).returncode:
        taken.power_cut()
        taken.boot(reimaged=True)


def fails(shell: SshShell, at: Access, timeout: float = 4.0) -> RemoteError:
    begun = time.monotonic()
    with pytest.raises(RemoteError) as caught:
        shell.run(at, ["true"], timeout=timeout)
    error = caught.value
    took = time.monotonic() - begun
    assert error.node == at.address
    assert abs(error.elapsed - took) < 3
    assert took < timeout + 6
    assert error.hints
    assert at.address not in error.message, "equal errors of several nodes are told together"
    return error


def _runs(host: Host, *argv: str) -> bool:
    return any(one.argv == argv for one in host.processes())


def answers(shell: SshShell, at: Access) -> bool:
    try:
        return shell.run(at, ["true"], timeout=AMPLE_S).status == 0
    except RemoteError:
        return False


def test_a_stopped_sshd_refuses_at_once_and_is_found_again(shell: SshShell, rig: Rig, host: Host) -> None:
    at = access(rig, host)
    host.stop_sshd()
    error = fails(shell, at)
    assert (error.stage, error.message) == ("connect", "port 22 refuses connections")
    assert error.elapsed < 3, "refused is refused, and not waited for"
    host.start_sshd()
    assert answers(shell, at)


def test_a_dead_host_and_dropped_packets_are_silence(shell: SshShell, rig: Rig, host: Host) -> None:
    at = access(rig, host)
    host.drop(True)
    error = fails(shell, at, timeout=2)
    assert (error.stage, error.message) == ("connect", "no answer on port 22 within 2 s")
    host.drop(False)
    assert answers(shell, at)
    host.power_cut()
    with pytest.raises(RemoteError):
        shell.run(at, ["true"], timeout=2)  # over the connection that it had: nothing says that it is gone
    until(lambda: fails(shell, at, timeout=2).message == "no answer on port 22 within 2 s")
    host.boot()
    assert answers(shell, at)


def test_a_tarpit_is_no_silence(shell: SshShell, rig: Rig, host: Host) -> None:
    host.tarpit(True)
    error = fails(shell, access(rig, host), timeout=2)
    assert (error.stage, error.message) == ("connect", "connected, but no SSH banner within 2 s")
    host.tarpit(False)
    assert answers(shell, access(rig, host))


def test_dead_hosts_do_not_delay_the_others(shell: SshShell, rig: Rig, host: Host) -> None:
    """More of them than handshakes may be under way: in a rack without power, and behind a hung load balancer."""
    alive = access(rig, rig["r01-n03"])
    dead = [replace(alive, address=f"10.{rig.plan.range}.250.{number}") for number in range(1, 71)]
    pit = rig["r01-n04"]
    pit.tarpit(True)
    hung = [replace(access(rig, pit), host_key=f"SHA256:{number}") for number in range(70)]
    with ThreadPoolExecutor(141) as pool:
        slow = [pool.submit(fails, shell, one, 8.0) for one in (*dead, *hung)]
        begun = time.monotonic()
        assert answers(shell, alive)
        assert time.monotonic() - begun < 6
        for one in slow:
            one.result()
    pit.tarpit(False)


def test_a_name_that_does_not_resolve(shell: SshShell, rig: Rig, host: Host) -> None:
    error = fails(shell, replace(access(rig, host), address="no-such-host.invalid"))
    assert error.stage == "resolve"
    assert error.message.startswith("cannot resolve its name")
    assert "`no-such-host.invalid`" in error.hints[0]


@pytest.mark.parametrize("word", ["-oProxyCommand=touch /tmp/owned", "a b", "a\nb", "", "a;b", "$(id)", "a\x1b[0m"])
def test_strange_names_reach_no_program(shell: SshShell, word: str) -> None:
    for at in (Access(address=word), Access(address="ok", user=word or "-"), Access(address="ok", proxy_jump=word)):
        if at.proxy_jump == "":
            continue
        with pytest.raises(RemoteError) as caught:
            shell.run(at, ["true"], timeout=AMPLE_S)
        assert caught.value.stage == "resolve"
        assert caught.value.message.startswith("invalid ")


def test_another_key_is_permission_denied_and_says_what_was_tried(
    shell: SshShell, rig: Rig, host: Host, tmp_path: Path
) -> None:
    make_key(tmp_path / "other", "other")
    error = fails(shell, access(rig, host, identity_file=str(tmp_path / "other")))
    assert error.stage == "auth"
    assert error.message == f"permission denied for `ubuntu`; tried key `{tmp_path}/other`"
    assert "authorized_keys" in error.hints[-1]
    error = fails(shell, access(rig, host, identity_file=str(tmp_path / "missing")))
    assert error.message == f"permission denied for `ubuntu`; tried `{tmp_path}/missing` (no such file)"
    assert "identity_file" in error.hints[0]
    (tmp_path / "rubbish").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n")
    error = fails(shell, access(rig, host, identity_file=str(tmp_path / "rubbish")))
    assert "cannot be used" in error.message
    error = fails(shell, access(rig, host, user="nobody-there"))
    assert "permission denied for `nobody-there`; tried key" in error.message


def test_a_login_that_is_not_answered(shell: SshShell, rig: Rig, host: Host) -> None:
    host.sshd_options(
        AuthorizedKeysFile="none", AuthorizedKeysCommand="/usr/bin/sleep 60", AuthorizedKeysCommandUser="root"
    )
    error = fails(shell, access(rig, host), timeout=5)
    assert (error.stage, error.message) == ("auth", "no answer to the login of `ubuntu` within 5 s")
    host.sshd_options()


def test_a_login_that_runs_no_commands(shell: SshShell, rig: Rig, host: Host) -> None:
    host.run(["sh", "-c", "sed -i 's#^other:\\(.*\\):/bin/bash#other:\\1:/usr/sbin/nologin#' /etc/passwd"])
    error = fails(shell, access(rig, host, user="other"))
    assert (error.stage, error.message) == (
        "command",
        "login shell of `other` is `nologin`: This account is currently not available.",
    )
    host.run(["sh", "-c", "sed -i 's#/usr/sbin/nologin$#/bin/bash#' /etc/passwd"])


def test_what_start_up_files_print_is_not_the_answer(shell: SshShell, rig: Rig, host: Host) -> None:
    host.run(["sh", "-c", "cp /home/ubuntu/.bashrc /home/ubuntu/kept; echo 'echo welcome' > /home/ubuntu/.bashrc"])
    assert shell.run(access(rig, host), ["echo", "{}"], timeout=AMPLE_S).stdout == b"{}\n"
    host.run(["mv", "/home/ubuntu/kept", "/home/ubuntu/.bashrc"])


def test_a_login_shell_that_is_no_sh(shell: SshShell, rig: Rig, host: Host) -> None:
    """Stand-in for csh and fish: it takes only what all of them read alike."""
    strict = 'case "$2" in *\\\\\\\\* | *!* | *"\n"*) echo "cannot read: $2" >&2; exit 1;; esac'
    strict = f'#!/bin/sh\n{strict}\nexec /bin/sh "$@"\n'
    host.write("/usr/local/bin/strange", strict, mode=0o755)
    host.run(["sed", "-i", "s#^other:\\(.*\\):/bin/bash#other:\\1:/usr/local/bin/strange#", "/etc/passwd"])
    word = "it's\nall! \\ here"
    ended = shell.run(access(rig, host, user="other"), ["printf", "%s", word], timeout=AMPLE_S)
    assert ended.stdout.decode() == word, ended
    host.run(["sed", "-i", "s#/usr/local/bin/strange$#/bin/bash#", "/etc/passwd"])


def test_a_connection_lost_in_mid_command_is_told_and_not_repeated(shell: SshShell, rig: Rig, host: Host) -> None:
    at = access(rig, host)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(shell.run, at, ["sh", "-c", "echo x >> times; echo so far >&2; sleep 4720"], timeout=60)
        until(lambda: _runs(host, "sleep", "4720"))
        host.end_ssh_sessions()
        with pytest.raises(RemoteError, match=r"the connection was lost \d+ s into the command") as caught:
            running.result(timeout=AMPLE_S)
    assert caught.value.stage == "command"
    assert caught.value.tail == ("so far",)
    assert answers(shell, at)
    assert shell.run(at, ["cat", "times"], timeout=AMPLE_S).stdout == b"x\n"


def test_an_idle_connection_that_has_died_costs_nothing(shell: SshShell, rig: Rig, host: Host) -> None:
    at = access(rig, host)
    assert answers(shell, at)
    host.stop_sshd(sessions=True)
    host.start_sshd()
    assert answers(shell, at)
    host.power_cut()
    host.boot()
    assert shell.run(at, ["true"], timeout=AMPLE_S).status == 0


def test_a_link_that_is_cut_for_30_s_ends_what_is_over_its_time_and_nothing_else(
    shell: SshShell, rig: Rig, host: Host
) -> None:
    at = access(rig, host)
    assert answers(shell, at)
    with ThreadPoolExecutor(3) as pool:
        short = pool.submit(shell.run, at, ["sleep", "2"], timeout=4)
        long = pool.submit(shell.run, at, ["sh", "-c", "sleep 33; echo done"], timeout=90)
        until(lambda: _runs(host, "sleep", "33"))
        host.link(False)
        cut = time.monotonic()
        with pytest.raises(RemoteError) as caught:
            short.result(timeout=AMPLE_S)
        assert time.monotonic() - cut < 20
        assert caught.value.message.startswith("no reply from the command within 4 s")
        error = fails(shell, at, timeout=2)
        assert error.message == "no answer on port 22 within 2 s"
        until(lambda: time.monotonic() - cut > 30, patience=40)
        host.link(True)
        assert answers(shell, at)
        assert long.result(timeout=60).stdout == b"done\n"
    until(lambda: _served(host) == 1)


def test_a_put_that_is_cut_off_leaves_nothing(shell: SshShell, rig: Rig, host: Host) -> None:
    at = access(rig, host)
    shell.put(at, "whole", {"file": (b"old", 0o600)}, timeout=AMPLE_S)
    with ThreadPoolExecutor(1) as pool:
        big = {"first": (b"1", 0o600), "file": (b"x" * 400_000_000, 0o600)}
        putting = pool.submit(shell.put, at, "whole", big, timeout=60)
        until(lambda: any("/.put." in one for one in _below(host, "whole")))
        host.end_ssh_sessions()
        with pytest.raises(RemoteError):
            putting.result(timeout=AMPLE_S)
    until(lambda: _below(host, "whole") == ["/home/ubuntu/whole/file"])
    assert host.read("/home/ubuntu/whole/file") == "old"


def _below(host: Host, folder: str) -> list[str]:
    return sorted(host.files(f"/home/ubuntu/{folder}") - {f"/home/ubuntu/{folder}"})


def test_a_full_disk_is_named(shell: SshShell, rig: Rig, host: Host) -> None:
    at = access(rig, host)
    assert answers(shell, at)
    host.fill_disk()
    with pytest.raises(RemoteError, match=r"cannot write to `full`: No space left on device"):
        shell.put(at, "full", {"file": (b"x" * 1_000_000, 0o600)}, timeout=AMPLE_S)
    host.free_disk()
    shell.put(at, "full", {"file": (b"x", 0o600)}, timeout=AMPLE_S)


def test_an_sshd_that_allows_two_sessions_serves_twenty_in_turn(shell: SshShell, rig: Rig, host: Host) -> None:
    host.sshd_options(MaxSessions="2")
    at = access(rig, host)

    def ask(number: int) -> bytes:
        return shell.run(at, ["sh", "-c", f"sleep 0.1; echo {number}"], timeout=AMPLE_S).stdout

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(ask, range(20))) == [f"{number}\n".encode() for number in range(20)]
    assert _served(host) == 1
    host.sshd_options()


def _served(host: Host) -> int:
    return len([one for one in host.processes() if one.argv[0].startswith("sshd: ubuntu@")])


def test_an_sshd_that_drops_what_comes_at_once_is_asked_again(rig: Rig, host: Host, home: Path, user: Path) -> None:
    """Twelve launchers at once: for one alone a machine has one connection."""
    host.sshd_options(MaxStartups="2:50:4")
    shells = [SshShell(home) for _ in range(12)]
    with ThreadPoolExecutor(12) as pool:
        done = list(pool.map(lambda one: one.run(access(rig, host), ["true"], timeout=30).status, shells))
    assert done == [0] * 12
    assert len((home / "known_hosts").read_text().splitlines()) == 1
    for one in shells:
        one.close()
    host.sshd_options()


def test_nothing_is_printed_and_no_thread_is_left(
    rig: Rig, host: Host, home: Path, user: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = threading.active_count()
    one = SshShell(home)
    assert answers(one, access(rig, host))
    with socket.socket() as liar:  # speaks, but no SSH
        liar.bind(("127.0.0.1", 0))
        liar.listen()
        port = liar.getsockname()[1]
        served = threading.Thread(target=_lie, args=(liar,))
        served.start()
        error = fails(one, Access(address="127.0.0.1", port=port), timeout=3)
        served.join()
    assert error.stage == "connect"
    host.end_ssh_sessions()
    one.close()
    until(lambda: threading.active_count() <= before)
    assert capfd.readouterr() == ("", "")


def test_who_leaves_does_not_wait_for_machines_that_hang(rig: Rig, host: Host, home: Path, user: Path) -> None:
    one, at = SshShell(home), access(rig, host)
    assert answers(one, access(rig, rig["r01-n01"]))
    pit = rig["r01-n04"]
    pit.tarpit(True)
    host.drop(True)
    before = threading.active_count()
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(one.run, place, ["true"], timeout=60) for place in (at, access(rig, pit))]
        waiting.append(pool.submit(one.run, access(rig, rig["r01-n01"]), ["sleep", "60"], timeout=90))
        until(lambda: threading.active_count() >= before + 3 and _runs(rig["r01-n01"], "sleep", "60"))
        one.close()
        begun = time.monotonic()
        for each in waiting:
            assert isinstance(each.exception(timeout=AMPLE_S), RemoteError)
        assert time.monotonic() - begun < 15
    host.drop(False)
    pit.tarpit(False)


def _lie(liar: socket.socket) -> None:
    caller, _ = liar.accept()
    with caller:
        caller.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 200)
