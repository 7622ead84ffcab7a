"""Lines of known_hosts files, and what follows from them."""

import multiprocessing
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.admission.listener import learnt_text
from launcher.transport.ssh.config import Settings
from launcher.transport.ssh.host_keys import HostKey, HostKeys
from launcher.transport.ssh.operation import HostKeyError, Operation

OLD, NEW = HostKey("ssh-ed25519", b"old"), HostKey("ssh-ed25519", b"new")
RSA = HostKey("ssh-rsa", b"rsa")
AT = Settings(address="n1", hostname="n1", port=22, user="me", known_as="n1")


def judge(hosts: HostKeys, key: HostKey, settings: Settings = AT) -> None:
    hosts.judge(settings, key, Operation("n1", 5))


@pytest.mark.parametrize(
    ("names", "covered"),
    [
        ("n1", True),
        ("N1", True),
        ("a,n1,b", True),
        ("n*", True),
        ("n?", True),
        ("n1,!n1", False),
        ("!n1,*", False),
        ("n10", False),
        ("[n1]:22", False),
        ("n[1]", False),
        ("|1|rubbish", False),
    ],
)
def test_names(tmp_path: Path, names: str, covered: bool) -> None:
    (tmp_path / "kh").write_text(f"{names} {OLD.kind} {b64encode(OLD.blob).decode()}\n")
    assert bool(HostKeys(tmp_path / "own").known(replace(AT, known_hosts=(str(tmp_path / "kh"),))).keys) is covered


def test_the_type_that_is_known_is_asked_for(tmp_path: Path) -> None:
    hosts = HostKeys(tmp_path / "own")
    hosts.replace("n1", RSA)
    assert hosts.known(AT).algorithms == ("rsa-sha2-512", "rsa-sha2-256")
    with pytest.raises(HostKeyError, match="has changed"):
        judge(hosts, NEW)


def test_a_key_is_learnt_once_and_replaced_by_word(tmp_path: Path) -> None:
    hosts = HostKeys(tmp_path / "home" / "own")
    judge(hosts, OLD)
    judge(hosts, OLD)
    assert hosts.own.read_text() == OLD.line("n1")
    with pytest.raises(HostKeyError) as caught:
        judge(hosts, NEW)
    assert (caught.value.expected, caught.value.presented) == ((OLD.fingerprint,), NEW.fingerprint)
    hosts.replace("other", OLD)
    hosts.replace("n1", NEW)
    judge(hosts, NEW)
    assert sorted(hosts.own.read_text().splitlines(keepends=True)) == sorted((OLD.line("other"), NEW.line("n1")))


def test_what_was_learnt_is_told_once_with_its_fingerprint(tmp_path: Path) -> None:
    hosts = HostKeys(tmp_path / "own")
    for name in ("n1", "n1", "n2"):
        judge(hosts, OLD, replace(AT, known_as=name))
    judge(hosts, NEW, replace(AT, known_as="n3", pin=NEW.fingerprint))
    assert [(one.host, one.fingerprint) for one in hosts.learnt] == [("n1", OLD.fingerprint), ("n2", OLD.fingerprint)]
    first, *rest = learnt_text(hosts.learnt)
    assert first == f"accepted 2 unknown host keys, kept in `{tmp_path}/own`: compare with the machines' own"
    assert rest == [f"  n1 {OLD.fingerprint}", f"  n2 {OLD.fingerprint}"]
    assert learnt_text(hosts.learnt * 36)[-2:] == (
        f"  n2 {OLD.fingerprint}",
        f"  and 68 more: `ssh-keygen -lf {tmp_path}/own` prints all",
    )


def test_nothing_is_learnt_where_keys_must_be_known(tmp_path: Path) -> None:
    hosts = HostKeys(tmp_path / "own")
    with pytest.raises(HostKeyError, match=r"unknown host key SHA256:.*host_keys.*accepts no new ones") as refused:
        judge(hosts, OLD, replace(AT, strict=True))
    assert "host_key" in refused.value.hints[0]
    judge(hosts, OLD, replace(AT, strict=True, pin=OLD.fingerprint))
    assert (hosts.learnt, hosts.own.exists()) == ([], False)


def test_a_pin_is_compared_with_or_without_its_padding(tmp_path: Path) -> None:
    hosts = HostKeys(tmp_path / "own")
    judge(hosts, OLD, replace(AT, pin=OLD.fingerprint + "="))
    with pytest.raises(HostKeyError, match="the inventory pins"):
        judge(hosts, NEW, replace(AT, pin=OLD.fingerprint))
    assert not hosts.own.exists()


def _learn(own: Path, first: int) -> None:
    hosts = HostKeys(own)
    for number in range(first, first + 25):
        hosts.judge(replace(AT, known_as=f"n{number}"), OLD, Operation("n", 5))


def test_processes_that_learn_at_once_lose_nothing(tmp_path: Path) -> None:
    own = tmp_path / "home" / "own"
    context = multiprocessing.get_context("forkserver")  # the imports once for all
    context.set_forkserver_preload([__name__])
    workers = [context.Process(target=_learn, args=(own, first)) for first in (0, 25, 50, 50)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert sorted(own.read_text().splitlines(keepends=True)) == sorted(OLD.line(f"n{number}") for number in range(75))
