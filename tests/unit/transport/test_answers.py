"""Which failures are put down to the node, and which to nobody."""

from typing import cast

import pytest

from launcher.core.model.actions import Unit
from launcher.core.model.inventory import Access
from launcher.core.model.receipt import Result
from launcher.core.model.run import RunId
from launcher.errors import LaunchError, RemoteError
from launcher.ports import Shell
from launcher.setup import layout, ports
from launcher.transport.agent.answers import done, failed
from launcher.transport.agent.client import AgentClient

FULL = "cannot write to `.nvlaunch/runs/r/n1`: No space left on device"


def client(name: str) -> AgentClient:
    return AgentClient(
        name=name,
        unit=Unit.SLOT,
        shell=cast("Shell", None),
        access=Access(address=name),
        layout=layout.remote(RunId("r"), name),
        blocks=ports.wide(),
        leases=(),
        shared=False,
        python="python3",
    )


@pytest.mark.parametrize(
    ("error", "unfit"),
    [
        (RemoteError(FULL, node="n1", stage="put"), ("n1",)),
        (RemoteError("fork: retry: Resource temporarily unavailable", node="n1", stage="hello", tail=("x",)), ("n1",)),
        (RemoteError("it ended", node="n1", stage="ray", tail=("OSError: [Errno 30] Read-only file system",)), ("n1",)),
        (RemoteError("no answer on port 22", node="n1", stage="connect"), ()),
        (RemoteError("Input/output error", node="n1", stage="connect"), ()),
        (LaunchError("No space left on device"), ()),
    ],
)
def test_an_error_that_a_node_reports_of_itself_is_its_own(error: LaunchError, unfit: tuple[str, ...]) -> None:
    answer = failed(error, client("n1"))
    assert (answer.result, answer.unfit) == (Result.FAILED, unfit)
    assert failed(error, client("n2"), client("n1")).unfit == unfit
    assert failed(error, client("n2"), client("n3")).unfit == (), "it is about none of them"


def test_a_reply_with_a_fault_is_about_the_node_that_was_asked() -> None:
    fault = {"stage": "ray", "path": "", "errno": "EAGAIN"}
    reply = {"ok": False, "message": "cannot start anything more", "fault": fault}
    assert done(reply, client("n1")).unfit == ("n1",)  # type: ignore[arg-type]
    assert done({"ok": False, "message": "no"}, client("n1")).unfit == ()
