"""How the words of a `fence_command` are made."""

from dataclasses import replace

import pytest

from launcher.core.model.inventory import Access
from launcher.core.model.nodeset import NodeName
from launcher.transport.fence import words
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
