"""Replies of agents as answers to actions."""

from launcher.core.model.inventory import GpuDriver, Node
from launcher.core.model.nodeset import NodeName
from launcher.core.model.receipt import Answer, Result
from launcher.errors import LaunchError, RemoteError
from launcher.runtime.protocol import Reply
from launcher.runtime.protocol_files import NODE_ERRORS
from launcher.transport.agent.client import AgentClient

GPUS_S = 60.0
"""Seconds for a node to check its GPUs: it gives its driver 20 for each of two questions."""


def done(reply: Reply, client: AgentClient | None = None) -> Answer:
    """Return DONE, or FAILED with the agent's message; `client` is the agent whose node may be to blame."""
    if reply.get("absent"):
        return Answer(result=Result.FAILED, message="the run has no files on the node yet")
    if reply["ok"]:
        return Answer(result=Result.DONE)
    return Answer(
        result=Result.FAILED,
        message=reply.get("message", ""),
        tail=tuple(reply.get("tail", ())),
        lasting=reply.get("lasting", False),
        unfit=(NodeName(client.name),) if client is not None and "fault" in reply else (),
    )


def failed(error: LaunchError, *clients: AgentClient) -> Answer:
    """Return FAILED for an error of an action on these units.

    The one that it names is to blame where its machine could write or start nothing.
    """
    tail = error.tail if isinstance(error, RemoteError) else ()
    said = (error.message, *tail[-1:]) if isinstance(error, RemoteError) and (tail or error.stage == "put") else ()
    sick = any(text.lower() in line.lower() for text in NODE_ERRORS.values() for line in said)
    meant = [one for one in clients if isinstance(error, RemoteError) and error.node in (one.name, one.access.address)]
    names = {NodeName(client.name) for client in meant} if sick else set()
    unfit = tuple(names) if len(names) == 1 else ()  # several nodes may share one address
    return Answer(result=Result.FAILED, message=error.advice, tail=tail, unfit=unfit)


def killed(reply: Reply) -> Answer:
    """Return KILLED after two empty scans, else CANNOT_TELL with what is left."""
    if reply["ok"]:
        return Answer(result=Result.KILLED, warnings=(reply["message"],) if "message" in reply else ())
    left = reply.get("left")
    message = f"still alive: {', '.join(map(str, left))}" if left else reply.get("message", "no reply")
    return Answer(result=Result.CANNOT_TELL, message=message)


def free(client: AgentClient, node: Node, gpus: range, *, from_memory: bool = False) -> Answer:
    """Return KILLED for a killed node whose GPUs in `gpus` are free, else NOT_FREE.

    The node's driver is asked, since a rank in a container carries no mark. The program is the one on the node, or sent
    again `from_memory`.
    """
    if node.gpu_driver is GpuDriver.NONE or not gpus:
        return Answer(result=Result.KILLED)
    ask = client.from_memory if from_memory else client.answer
    reply = ask("gpus", client.layout.root, str(gpus.stop), str(gpus.start), timeout=GPUS_S)
    return Answer(result=Result.KILLED if reply["ok"] else Result.NOT_FREE, message=reply.get("message", ""))
