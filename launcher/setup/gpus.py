"""The GPUs that have to be free before a member starts again on a node."""

from launcher.core.model.inventory import Node
from launcher.core.model.run import MemberName, Run
from launcher.core.model.run_index import RunIndex
from launcher.core.placement import colocation


def of_member(run: Run, index: RunIndex, node: Node, name: MemberName) -> range:
    """Return the GPUs that a member needs free.

    All of the node, or only the member's own where members of another gang go on beside it.
    """
    member = index.by_name[name]
    if not index.shares_node(member):
        return range(node.gpus)
    group = run.group(member.group)
    first = colocation.first_gpu(run.task, group)
    return range(first, first + group.gpus)
