"""What Ansible knows of hosts, in whichever form: variables of hosts and groups, and which of them holds.

Groups are roles, and no racks. Only a variable named `rack` says in which rack a host is.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.config.importers.ansible_range import RANGE, expand
from launcher.config.importers.found import Host
from launcher.config.importers.jumps import from_options
from launcher.config.importers.roster import Roster, number, short

_TEMPLATE = re.compile(r"\{\{|\{%|\$\{")
_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "ansible.builtin.paramiko_ssh")
_SECRETS = ("ansible_password", "ansible_ssh_pass", "ansible_become_pass", "ansible_become_password")
_OPTIONS = ("ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_ssh_args")
_LAX = re.compile(
    r"(StrictHostKeyChecking|UserKnownHostsFile|LogLevel|ControlMaster|ControlPath|ControlPersist|ServerAlive)",
    re.IGNORECASE,
)

Var = tuple[str, int]
"""The value of a variable, and the line where it stands."""


@dataclass(slots=True)
class Group:
    """A group: its own hosts, those groups below it, and its variables."""

    name: str
    line: int
    hosts: dict[str, None] = field(default_factory=dict)
    children: dict[str, int] = field(default_factory=dict)
    vars: dict[str, Var] = field(default_factory=dict)


class Ansible:
    """All that was read of an inventory."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._groups: dict[str, Group] = {}
        self._hosts: dict[str, int] = {}
        self._vars: dict[str, dict[str, Var]] = {}

    def group(self, name: str, line: int) -> Group:
        """Return the group of a name, new where it was not there."""
        return self._groups.setdefault(name, Group(name, line))

    def host(self, pattern: str, line: int, told: Mapping[str, Var], group: Group | None) -> None:
        """Take in the host, or hosts, that stand in a group; a host may stand in several."""
        name, port = _port(pattern)
        for host in expand(name, line, self._roster):
            self._hosts.setdefault(host, line)
            own = self._vars.setdefault(host, {})
            own.update(readable(told))
            if port is not None:
                own.setdefault("ansible_port", (port, line))
            if group is not None:
                group.hosts[host] = None

    def finish(self) -> None:
        """Hand over the hosts."""
        depths = self._depths()
        inherited: dict[str, dict[str, Var]] = {}
        order = sorted(depths, key=lambda name: (depths[name], name))
        merged = {name: dict(self._groups[name].vars) for name in order}
        # Parents first: what a group says itself beats what it inherits.
        for name in order:
            for child in self._groups[name].children:
                if child in merged and depths.get(child, 0) > depths[name]:
                    merged[child] = {**merged[name], **merged[child]}
        for name in order:
            for host in self._groups[name].hosts:
                inherited.setdefault(host, {}).update(merged[name])
        everybody = self._groups["all"].vars if "all" in self._groups else {}
        for host, line in self._hosts.items():
            self._add(host, line, {**everybody, **inherited.get(host, {}), **self._vars[host]})
        self._say_groups()

    def _depths(self) -> dict[str, int]:
        """Return how far each group is below one that has no parent; a group below itself is a mistake."""
        parents: dict[str, list[str]] = {name: [] for name in self._groups}
        for group in self._groups.values():
            for child, line in group.children.items():
                if child in parents:
                    parents[child].append(group.name)
                else:
                    self._roster.remark(line, f"group `{short(child)}` is named here and described nowhere")
        depths = {name: 0 for name, above in parents.items() if not above}
        ready, waiting = list(depths), {name: len(above) for name, above in parents.items()}
        for name in ready:
            for child in self._groups[name].children:
                if child in waiting:
                    depths[child] = max(depths.get(child, 0), depths[name] + 1)
                    waiting[child] -= 1
                    if not waiting[child]:
                        ready.append(child)
        for name in self._groups.keys() - set(ready):
            self._roster.wrong(self._groups[name].line, f"group `{short(name)}` is below itself, or below such a one")
        return {name: depths[name] for name in ready}

    def _say_groups(self) -> None:
        lost = {host.name for host in self._roster.hosts if host.rack is None}
        named = [
            one for one in self._groups.values() if one.hosts.keys() & lost and one.name not in ("all", "ungrouped")
        ]
        if named:
            what = f"groups such as `{short(named[0].name)}` are not taken for racks"
            self._roster.remark(named[0].line, what, "a variable `rack` of a host or group says where it is")

    def _add(self, name: str, line: int, told: Mapping[str, Var]) -> None:
        values = {key: self._plain(name, key, value) for key, value in told.items() if key in _READ}
        connection = (values.get("ansible_connection") or "ssh").lower()
        if connection not in _SSH:
            self._roster.remark(
                line, f"`{short(name)}` is reached by `{short(connection)}`, not by SSH: it is left out"
            )
            return
        for key in _SECRETS:
            if key in told:
                self._roster.remark(told[key][1], f"`{key}` is not taken over: keys log in")
        written = values.get("ansible_port") or values.get("ansible_ssh_port")
        port = number(written, 1, 65535)
        if written is not None and port is None:
            self._roster.wrong(line, f"`{short(written)}` of `{short(name)}` cannot be a port")
        address = values.get("ansible_host") or values.get("ansible_ssh_host")
        self._roster.add(
            Host(
                name=name,
                line=line,
                address=address if address != name else None,
                user=values.get("ansible_user") or values.get("ansible_ssh_user"),
                port=port if port != 22 else None,
                identity_file=values.get("ansible_private_key_file") or values.get("ansible_ssh_private_key_file"),
                proxy_jump=self._jump(told, values),
                rack=values.get("rack"),
            )
        )

    def _plain(self, name: str, key: str, value: Var) -> str | None:
        text, line = value
        if _TEMPLATE.search(text):
            self._roster.wrong(line, f"`{key}` of `{short(name)}` is a template, `{short(text)}`", "render it first")
            return None
        return text or None

    def _jump(self, told: Mapping[str, Var], values: Mapping[str, str | None]) -> str | None:
        jump = None
        for key in _OPTIONS:
            found, rest = from_options(values.get(key) or "")
            jump = jump or found
            odd = [option for option in rest if not _LAX.match(option)]
            if odd:
                what = f"`{short(' '.join(odd))}` in `{key}` is not taken over"
                self._roster.remark(told[key][1], what, "set it in `~/.ssh/config`, which is read as OpenSSH reads it")
            if any(re.match(r"StrictHostKeyChecking\W*no", option, re.IGNORECASE) for option in rest):
                self._roster.remark(told[key][1], "`StrictHostKeyChecking=no` is not taken over: host keys are checked")
        return jump


_READ = (
    "ansible_host", "ansible_ssh_host", "ansible_port", "ansible_ssh_port", "ansible_user", "ansible_ssh_user",
    "ansible_private_key_file", "ansible_ssh_private_key_file", "ansible_connection", "rack", *_OPTIONS,
)  # fmt: skip


def readable(told: Mapping[str, Var]) -> dict[str, Var]:
    """Return the variables that mean anything here; others need not be remembered."""
    return {key: value for key, value in told.items() if key in _READ or key in _SECRETS}


def _port(pattern: str) -> tuple[str, str | None]:
    """Return a host's pattern and the port behind it; the colons of ranges and of IPv6 are none."""
    found = re.fullmatch(r"\[([0-9A-Fa-f:]*::?[0-9A-Fa-f:]*)\]:(\d+)", pattern)
    if found:
        return found[1], found[2]
    bare = RANGE.sub("", pattern)
    if bare.count(":") == 1 and (ends := re.fullmatch(r"(.*):(\d+)", pattern)):
        return ends[1], ends[2]
    return pattern, None
