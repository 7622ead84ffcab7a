"""What a keeper said, as the answer to an action."""

from launcher.core.actions import Answer, Result
from launcher.transport.site import Json


def done(told: Json) -> Answer:
    """Answer DONE, or FAILED with the keeper's words."""
    if told.get("absent"):
        return Answer(result=Result.FAILED, words="the run has nothing on the node yet")
    if told["ok"]:
        return Answer(result=Result.DONE)
    return Answer(
        result=Result.FAILED, words=told["words"], tail=tuple(told.get("tail", ())), lasting=told.get("lasting", False)
    )


def killed(told: Json) -> Answer:
    """Answer KILLED after two empty scans, else CANNOT_TELL with what is left."""
    if told["ok"]:
        return Answer(result=Result.KILLED)
    left = told.get("left")
    words = f"still alive: {', '.join(map(str, left))}" if left else told.get("words", "nobody answers")
    return Answer(result=Result.CANNOT_TELL, words=words)
