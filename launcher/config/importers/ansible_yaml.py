"""Ansible inventories in YAML form (ansible/plugins/inventory/yaml.py)."""

from collections.abc import Mapping

from launcher.config.importers.ansible import AnsibleInventory, Var, known_variables
from launcher.config.importers.collector import HostCollector, short
from launcher.config.importers.foreign_yaml import TrackedMapping, as_mapping, compose_yaml
from launcher.config.yaml.nodes import ScalarNode


def read(text: str, collector: HostCollector) -> None:
    """Add the hosts to a collector."""
    found = AnsibleInventory(collector)
    for root in compose_yaml(text, collector.out):
        if groups := as_mapping(root, "the file", collector.out):
            _groups(groups, found, collector)
    found.finish()


def _groups(groups: TrackedMapping, found: AnsibleInventory, collector: HostCollector) -> None:
    """Add groups and their children; no recursion is needed."""
    waiting = [groups]
    while waiting:
        for key, value in waiting.pop().pairs():
            group = found.group(key.text, key.mark.line)
            if isinstance(value, ScalarNode) and not value.text.strip("~"):
                continue
            one = as_mapping(value, key.text, collector.out)
            if one is None:
                continue
            group.vars.update(known_variables(_vars(one.mapping("vars"))))
            _hosts(one, key.text, found, collector)
            if children := one.mapping("children"):
                waiting.append(children)
                group.children.update({child.text: child.mark.line for child, _ in children.pairs()})
            for rest in one.rest():
                what = f"unknown key `{short(rest.text)}` of group `{short(key.text)}` ignored"
                collector.warn(rest.mark.line, what)


def _hosts(one: TrackedMapping, name: str, found: AnsibleInventory, collector: HostCollector) -> None:
    hosts = one.node("hosts")
    if isinstance(hosts, ScalarNode):  # Ansible accepts one host as text
        found.host(hosts.text, hosts.mark.line, {}, found.group(name, one.line))
        return
    written = one.mapping("hosts")
    for key, value in written.pairs() if written else ():
        empty = isinstance(value, ScalarNode) and not value.text.strip("~")
        own = None if empty else as_mapping(value, key.text, collector.out)
        found.host(key.text, key.mark.line, _vars(own), found.group(name, one.line))


def _vars(section_: TrackedMapping | None) -> Mapping[str, Var]:
    if section_ is None:
        return {}
    return {key.text: (value.text, key.mark.line) for key, value in section_.pairs() if isinstance(value, ScalarNode)}
