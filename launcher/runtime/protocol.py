"""What launcher and nodes send each other. Both ends are checked against these types.

The one module of this folder that the launcher imports. Python 3.10 on nodes: the standard library only.
"""

from typing import TypedDict

SHARED = "shared"
"""The folder of a run on a node where documents of shared variables lie, each by its name."""


class SharedDocument(TypedDict):
    """What all ranks of a run have in common: `envs` of the task by group, and `addresses` of each group's members,
    one a line in rank order. Sent as packed JSON, once to a node, under the hash of its content."""

    envs: dict[str, dict[str, str]]
    addresses: dict[str, str]


class Variables(TypedDict):
    """The variables of a setup or a rank: those of its `node` and its `group`, and its `own`, which go before them.

    `addresses` names variables whose value is the addresses of a group. They and the group's variables are in the
    document `shared`.
    """

    shared: str
    group: str
    node: dict[str, str]
    own: dict[str, str]
    addresses: dict[str, str]


class RankSpec(TypedDict):
    """A rank of an attempt: `spec.json` in its folder. `script` is relative to the run's folder."""

    member: str
    gang: str
    attempt: int
    script: str
    variables: Variables


class Setup(TypedDict):
    """A setup script, relative to the run's folder, and its variables."""

    script: str
    variables: Variables


def given(document: SharedDocument, variables: Variables) -> dict[str, str]:
    """Return what inventory and task give a program."""
    return {**variables["node"], **document["envs"][variables["group"]]}


def own(document: SharedDocument, variables: Variables) -> dict[str, str]:
    """Return a program's own variables."""
    addresses = {name: document["addresses"][group] for name, group in variables["addresses"].items()}
    return {**variables["own"], **addresses}
