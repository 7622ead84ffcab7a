"""How the words of a `fence_command` are made, and what is kept of those that it prints."""

from dataclasses import replace

import pytest

from launcher.core.model.inventory import Access
from launcher.core.model.nodeset import NodeName
from launcher.core.model.receipt import Result
from launcher.transport.fence import power_off, words
from tests.facts import NODE


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("r07-n01", "bmc-r07-n01"),
        ("a b; rm -rf ~", "bmc-a b; rm -rf ~"),
        ("$(reboot)`id`'\"", "bmc-$(reboot)`id`'\""),
        ("{address}", "bmc-{address}"),
    ],
    ids=["plain", "spaces", "shell", "a-name-like-a-field"],
)
def test_a_name_stays_within_its_word_and_no_shell_reads_it(name: str, said: str) -> None:
    node = replace(NODE, name=NodeName(name), access=Access(address="10.0.7.1"))
    found = words("ipmitool -H bmc-{node} -I 'lan plus' --rack={rack} {address} power off", node)
    assert found == ("ipmitool", "-H", said, "-I", "lan plus", "--rack=r07", "10.0.7.1", "power", "off")


@pytest.mark.parametrize(("code", "result"), [(0, Result.POWERED_OFF), (1, Result.FAILED)])
def test_neither_its_own_words_nor_secrets_are_kept_of_what_it_prints(
    monkeypatch: pytest.MonkeyPatch, code: int, result: Result
) -> None:
    monkeypatch.setenv("IPMI_PASSWORD", "from-the-environment")
    script = f"'echo $0 $@; echo $IPMI_PASSWORD for-the-run user=root >&2; exit {code}'"
    command = f"sh -c {script} bmc-{{node}} -U root --password=hunter2 http://ann:letmein@bmc power off"
    answer = power_off(command, NODE, ("for-the-run",))
    assert answer.result is result
    printed = "\n".join((answer.message, *answer.tail))
    for secret in ("hunter2", "letmein", "root", "from-the-environment", "for-the-run"):
        assert secret not in printed
    assert f"bmc-{NODE.name} -U" in printed
    assert "power off" in printed
