"""What an agent said, as the answer to an action."""

from launcher.core.model.actions import Answer, Result
from launcher.core.model.inventory import GpuDriver, Node
from launcher.transport.agent.client import Json, Site

GPUS_S = 60.0
"""Seconds for a node to say whether its GPUs are free: it gives its driver 20 for each of two questions."""


def done(told: Json) -> Answer:
    """Return DONE, or FAILED with the agent's words."""
    if told.get("absent"):
        return Answer(result=Result.FAILED, message="the run has nothing on the node yet")
    if told["ok"]:
        return Answer(result=Result.DONE)
    return Answer(
        result=Result.FAILED,
        message=told["message"],
        tail=tuple(told.get("tail", ())),
        lasting=told.get("lasting", False),
    )


def killed(told: Json) -> Answer:
    """Return KILLED after two empty scans, else CANNOT_TELL with what is left."""
    if told["ok"]:
        return Answer(result=Result.KILLED)
    left = told.get("left")
    message = f"still alive: {', '.join(map(str, left))}" if left else told.get("message", "nobody answers")
    return Answer(result=Result.CANNOT_TELL, message=message)


def free(site: Site, node: Node, gpus: range) -> Answer:
    """Return KILLED for a killed node once nobody computes on these of the GPUs there, else NOT_FREE and why.

    Asked of the driver on the node, whoever may compute there: a rank in a container carries no mark of ours.
    """
    if node.gpu_driver is GpuDriver.NONE or not gpus:
        return Answer(result=Result.KILLED)
    told = site.answer("gpus", site.layout.root, str(gpus.stop), str(gpus.start), timeout=GPUS_S)
    return Answer(result=Result.KILLED if told["ok"] else Result.NOT_FREE, message=told.get("message", ""))
