"""Nodes of the inventory that are one machine: told by the boot id, where the run itself holds the lease."""

from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from launcher.core.model.actions import Unit
from launcher.core.model.inventory import Access
from launcher.core.model.receipt import Result
from launcher.errors import RemoteError
from launcher.ports import Completed, Shell
from launcher.setup.layout import Layout
from launcher.setup.ports import wide
from launcher.transport.agent import same_machine
from launcher.transport.agent.client import AgentClient


class Machines:
    """A shell to machines by address: each has booted once, or does not answer."""

    def __init__(self, boots: Mapping[str, str | None]) -> None:
        self._boots = boots

    def run(self, at: Access, argv: Sequence[str], *, timeout: float) -> Completed:
        assert tuple(argv) == ("cat", same_machine.BOOT_ID)
        boot = self._boots[at.address]
        if boot is None:
            raise RemoteError("timed out", node=at.address, stage="connect", elapsed=timeout)
        return Completed(status=0, stdout=f"{boot}\n".encode(), stderr=b"")


def clients(boots: Mapping[str, str | None]) -> list[AgentClient]:
    shell = cast(Shell, Machines(boots))
    return [
        AgentClient(
            name=name,
            unit=Unit.SLOT,
            shell=shell,
            access=Access(address=name),
            layout=cast(Layout, None),
            blocks=wide(),
            leases=(),
            shared=False,
            python="python3",
        )
        for name in boots
    ]


@pytest.mark.parametrize(
    ("boots", "told"),
    [
        ({"n1": "a", "n2": "b", "n7": "a"}, "n[1,7] are one machine"),
        ({"n1": "a", "n2": "b"}, "set `lease_path`"),
        ({"n1": "a", "n2": None}, "set `lease_path`"),
        ({"n1": None, "n2": None}, "set `lease_path`"),
    ],
    ids=["same", "other", "silent", "all-silent"],
)
def test_equal_boot_ids_alone_prove_that_two_nodes_are_one_machine(boots: Mapping[str, str | None], told: str) -> None:
    first, *others = clients(boots)
    answer = same_machine.answer(first, others)
    assert (answer.result, answer.lasting) == (Result.FAILED, True)
    assert told in answer.message
