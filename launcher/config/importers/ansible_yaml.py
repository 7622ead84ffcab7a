"""Ansible inventories in YAML form (ansible/plugins/inventory/yaml.py)."""

from collections.abc import Mapping

from launcher.config.importers.ansible import Ansible, Var, readable
from launcher.config.importers.documents import Section, compose, section
from launcher.config.importers.roster import Roster, short
from launcher.config.yaml.nodes import Scalar


def read(text: str, roster: Roster) -> None:
    """Add the hosts to a roster."""
    found = Ansible(roster)
    for root in compose(text, roster.out):
        if groups := section(root, "the file", roster.out):
            _groups(groups, found, roster)
    found.finish()


def _groups(groups: Section, found: Ansible, roster: Roster) -> None:
    """Take in groups and those below them, one after the other: the depth of a file is bounded, and so is this."""
    waiting = [groups]
    while waiting:
        for key, value in waiting.pop().pairs():
            group = found.group(key.text, key.mark.line)
            if isinstance(value, Scalar) and not value.text.strip("~"):
                continue
            one = section(value, key.text, roster.out)
            if one is None:
                continue
            group.vars.update(readable(_vars(one.section("vars"))))
            _hosts(one, key.text, found, roster)
            if children := one.section("children"):
                waiting.append(children)
                group.children.update({child.text: child.mark.line for child, _ in children.pairs()})
            for rest in one.rest():
                what = f"`{short(rest.text)}` of group `{short(key.text)}` is not known here, and is left out"
                roster.remark(rest.mark.line, what)


def _hosts(one: Section, name: str, found: Ansible, roster: Roster) -> None:
    hosts = one.node("hosts")
    if isinstance(hosts, Scalar):  # Ansible takes one host as text
        found.host(hosts.text, hosts.mark.line, {}, found.group(name, one.line))
        return
    written = one.section("hosts")
    for key, value in written.pairs() if written else ():
        empty = isinstance(value, Scalar) and not value.text.strip("~")
        own = None if empty else section(value, key.text, roster.out)
        found.host(key.text, key.mark.line, _vars(own), found.group(name, one.line))


def _vars(section_: Section | None) -> Mapping[str, Var]:
    if section_ is None:
        return {}
    return {key.text: (value.text, key.mark.line) for key, value in section_.pairs() if isinstance(value, Scalar)}
