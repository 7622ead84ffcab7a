"""Hosts of an Ansible inventory, with variables merged as Ansible does.

Groups are not racks. The rack of a host is its variable `rack`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.config.importers.ansible_range import RANGE, expand
from launcher.config.importers.collector import HostCollector, number, short
from launcher.config.importers.imported import ImportedHost
from launcher.config.importers.jump_hosts import from_options

_TEMPLATE = re.compile(r"\{\{|\{%|\$\{")
_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "ansible.builtin.paramiko_ssh")
_SECRETS = ("ansible_password", "ansible_ssh_pass", "ansible_become_pass", "ansible_become_password")
_OPTIONS = ("ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_ssh_args")
_LAX = re.compile(
    r"(StrictHostKeyChecking|UserKnownHostsFile|LogLevel|ControlMaster|ControlPath|ControlPersist|ServerAlive)",
    re.IGNORECASE,
)

Var = tuple[str, int]
"""The value of a variable, and its line."""


@dataclass(slots=True)
class AnsibleGroup:
    """A group: its own hosts, its child groups, and its variables."""

    name: str
    line: int
    hosts: dict[str, None] = field(default_factory=dict)
    children: dict[str, int] = field(default_factory=dict)
    vars: dict[str, Var] = field(default_factory=dict)


class AnsibleInventory:
    """The groups, hosts and variables of an inventory."""

    def __init__(self, collector: HostCollector) -> None:
        self._collector = collector
        self._groups: dict[str, AnsibleGroup] = {}
        self._hosts: dict[str, int] = {}
        self._vars: dict[str, dict[str, Var]] = {}

    def group(self, name: str, line: int) -> AnsibleGroup:
        """Return the group of a name; create it if it is new."""
        return self._groups.setdefault(name, AnsibleGroup(name, line))

    def host(self, pattern: str, line: int, variables: Mapping[str, Var], group: AnsibleGroup | None) -> None:
        """Add the hosts of a pattern to a group; a host may be in several groups."""
        name, port = _port(pattern)
        for host in expand(name, line, self._collector):
            self._hosts.setdefault(host, line)
            own = self._vars.setdefault(host, {})
            own.update(known_variables(variables))
            if port is not None:
                own.setdefault("ansible_port", (port, line))
            if group is not None:
                group.hosts[host] = None

    def finish(self) -> None:
        """Add the hosts with their merged variables to the collector."""
        depths = self._depths()
        inherited: dict[str, dict[str, Var]] = {}
        order = sorted(depths, key=lambda name: (depths[name], name))
        merged = {name: dict(self._groups[name].vars) for name in order}
        # Parents first: a group's own variables override inherited ones.
        for name in order:
            for child in self._groups[name].children:
                if child in merged and depths.get(child, 0) > depths[name]:
                    merged[child] = {**merged[name], **merged[child]}
        for name in order:
            for host in self._groups[name].hosts:
                inherited.setdefault(host, {}).update(merged[name])
        of_all = self._groups["all"].vars if "all" in self._groups else {}
        for host, line in self._hosts.items():
            self._add(host, line, {**of_all, **inherited.get(host, {}), **self._vars[host]})
        self._warn_of_groups()

    def _depths(self) -> dict[str, int]:
        """Return the depth of each group below the groups without parents.

        A cycle is a mistake.
        """
        parents: dict[str, list[str]] = {name: [] for name in self._groups}
        for group in self._groups.values():
            for child, line in group.children.items():
                if child in parents:
                    parents[child].append(group.name)
                else:
                    self._collector.warn(line, f"group `{short(child)}` is used here but not defined")
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
            self._collector.mistake(self._groups[name].line, f"group `{short(name)}` is in a cycle, or below one")
        return {name: depths[name] for name in ready}

    def _warn_of_groups(self) -> None:
        lost = {host.name for host in self._collector.hosts if host.rack is None}
        named = [
            one for one in self._groups.values() if one.hosts.keys() & lost and one.name not in ("all", "ungrouped")
        ]
        if named:
            what = f"groups such as `{short(named[0].name)}` are not imported as racks"
            self._collector.warn(named[0].line, what, "set a variable `rack` for hosts or groups")

    def _add(self, name: str, line: int, variables: Mapping[str, Var]) -> None:
        values = {key: self._plain(name, key, value) for key, value in variables.items() if key in _READ}
        connection = (values.get("ansible_connection") or "ssh").lower()
        if connection not in _SSH:
            what = f"`{short(name)}` skipped: its connection is `{short(connection)}`, not SSH"
            self._collector.warn(line, what)
            return
        for key in _SECRETS:
            if key in variables:
                self._collector.warn(variables[key][1], f"`{key}` ignored: nvlaunch logs in with keys only")
        written = values.get("ansible_port") or values.get("ansible_ssh_port")
        port = number(written, 1, 65535)
        if written is not None and port is None:
            self._collector.mistake(line, f"`{short(written)}` of `{short(name)}` is not a valid port")
        address = values.get("ansible_host") or values.get("ansible_ssh_host")
        self._collector.add(
            ImportedHost(
                name=name,
                line=line,
                address=address if address != name else None,
                user=values.get("ansible_user") or values.get("ansible_ssh_user"),
                port=port if port != 22 else None,
                identity_file=values.get("ansible_private_key_file") or values.get("ansible_ssh_private_key_file"),
                proxy_jump=self._jump(variables, values),
                rack=values.get("rack"),
            )
        )

    def _plain(self, name: str, key: str, value: Var) -> str | None:
        text, line = value
        if _TEMPLATE.search(text):
            what = f"`{key}` of `{short(name)}` is a template, `{short(text)}`"
            self._collector.mistake(line, what, "render the template first")
            return None
        return text or None

    def _jump(self, variables: Mapping[str, Var], values: Mapping[str, str | None]) -> str | None:
        jump = None
        for key in _OPTIONS:
            found, rest = from_options(values.get(key) or "")
            jump = jump or found
            odd = [option for option in rest if not _LAX.match(option)]
            if odd:
                what = f"`{short(' '.join(odd))}` in `{key}` ignored"
                self._collector.warn(variables[key][1], what, "set it in `~/.ssh/config`")
            if any(re.match(r"StrictHostKeyChecking\W*no", option, re.IGNORECASE) for option in rest):
                what = "`StrictHostKeyChecking=no` ignored: host keys are always checked"
                self._collector.warn(variables[key][1], what)
        return jump


_READ = (
    "ansible_host", "ansible_ssh_host", "ansible_port", "ansible_ssh_port", "ansible_user", "ansible_ssh_user",
    "ansible_private_key_file", "ansible_ssh_private_key_file", "ansible_connection", "rack", *_OPTIONS,
)  # fmt: skip


def known_variables(variables: Mapping[str, Var]) -> dict[str, Var]:
    """Return the variables that have a meaning here."""
    return {key: value for key, value in variables.items() if key in _READ or key in _SECRETS}


def _port(pattern: str) -> tuple[str, str | None]:
    """Return the pattern of a host and the port after it.

    Colons of ranges and of IPv6 addresses are not ports.
    """
    found = re.fullmatch(r"\[([0-9A-Fa-f:]*::?[0-9A-Fa-f:]*)\]:(\d+)", pattern)
    if found:
        return found[1], found[2]
    bare = RANGE.sub("", pattern)
    if bare.count(":") == 1 and (ends := re.fullmatch(r"(.*):(\d+)", pattern)):
        return ends[1], ends[2]
    return pattern, None
