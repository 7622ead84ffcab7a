"""Replies of agents as answers to actions."""

from launcher.core.model.inventory import GpuDriver, Node
from launcher.core.model.receipt import Answer, Result
from launcher.runtime.protocol import Reply
from launcher.transport.agent.client import AgentClient

GPUS_S = 60.0
"""Seconds for a node to check its GPUs: it gives its driver 20 for each of two questions."""


def done(reply: Reply) -> Answer:
    """Return DONE, or FAILED with the agent's message."""
    if reply.get("absent"):
        return Answer(result=Result.FAILED, message="the run has no files on the node yet")
    if reply["ok"]:
        return Answer(result=Result.DONE)
    return Answer(
        result=Result.FAILED,
        message=reply.get("message", ""),
        tail=tuple(reply.get("tail", ())),
        lasting=reply.get("lasting", False),
    )


def killed(reply: Reply) -> Answer:
    """Return KILLED after two empty scans, else CANNOT_TELL with what is left."""
    if reply["ok"]:
        return Answer(result=Result.KILLED)
    left = reply.get("left")
    message = f"still alive: {', '.join(map(str, left))}" if left else reply.get("message", "no reply")
    return Answer(result=Result.CANNOT_TELL, message=message)


def free(client: AgentClient, node: Node, gpus: range) -> Answer:
    """Return KILLED for a killed node whose GPUs in `gpus` are free, else NOT_FREE.

    The node's driver is asked, since a rank in a container carries no mark.
    """
    if node.gpu_driver is GpuDriver.NONE or not gpus:
        return Answer(result=Result.KILLED)
    reply = client.answer("gpus", client.layout.root, str(gpus.stop), str(gpus.start), timeout=GPUS_S)
    return Answer(result=Result.KILLED if reply["ok"] else Result.NOT_FREE, message=reply.get("message", ""))
