"""One setup of a node on which several groups have a member: each group's own, one after the other."""

import shlex
from collections.abc import Mapping, Sequence

from launcher.core.model.inventory import Node
from launcher.core.model.run import Member, MemberName, Run
from launcher.core.placement import colocation
from launcher.setup.layout import Layout


def crew(run: Run, member: Member) -> tuple[Member, ...]:
    """Return all that sit on the node of a member, that one first whose node it is."""
    owner = member.colocated_with or member.name
    members = (one for one in run.members() if owner in (one.name, one.colocated_with))
    return tuple(sorted(members, key=lambda one: bool(one.colocated_with)))


def gpus(run: Run, node: Node, name: MemberName) -> range:
    """Return the GPUs that have to be free before a member starts again: all of its node, or only its own where
    others, of another gang, go on there."""
    member = next(one for one in run.members() if one.name == name)
    if len({run.gang(one) for one in crew(run, member)}) == 1:
        return range(node.gpus)
    group = run.group(member.group)
    first = colocation.first_gpu(run.task, group)
    return range(first, first + group.gpus)


def script(members: Sequence[Member], envs: Mapping[str, Mapping[str, str]]) -> str:
    """Return a script that runs the setup of each member's group with that group's variables; the first that fails
    ends it with its own exit status."""
    return "\n".join(("set -e", *(_one(member.group, envs[member.group]) for member in members), ""))


def _one(group: str, env: Mapping[str, str]) -> str:
    own = Layout.setup_script(group).rpartition("/")[2]
    exports = "".join(f"export {name}={shlex.quote(value)}; " for name, value in env.items())
    return f'({exports}exec bash "$(dirname "$0")"/{own})'
