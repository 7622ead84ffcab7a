"""Ansible inventories in INI form (ansible/plugins/inventory/ini.py)."""

import re
import shlex

from launcher.config.importers.ansible import AnsibleGroup, AnsibleInventory, Var, known_variables
from launcher.config.importers.collector import HostCollector, short
from launcher.config.importers.jump_hosts import MAX_LINE
from launcher.config.importers.text_lines import Line, lines

SECTION = re.compile(r"\[([^\]:]+)(?::(\w+))?\]")
_PARTS = ("hosts", "children", "vars")


def read(text: str, collector: HostCollector) -> None:
    """Add the hosts to a collector."""
    found = AnsibleInventory(collector)
    group: AnsibleGroup | None = None
    part: str | None = "hosts"
    for line in lines(text, comments="#;"):
        if not line.text:
            continue
        if header := SECTION.fullmatch(line.text):
            part = header[2] or "hosts"
            group = found.group(header[1].strip(), line.number)
            if part not in _PARTS:
                what = f"unknown section `{short(line.text)}`"
                collector.mistake(line.number, what, "write `[GROUP]`, `[GROUP:vars]` or `[GROUP:children]`")
                part = None
        elif part == "hosts":
            _host(line, group, found, collector)
        elif part == "children" and group is not None:
            group.children.setdefault(line.text.split()[0], line.number)
        elif part == "vars" and group is not None:
            _variable(line, group, collector)
    found.finish()


def _host(line: Line, group: AnsibleGroup | None, found: AnsibleInventory, collector: HostCollector) -> None:
    if len(line.text) > MAX_LINE:
        collector.mistake(line.number, f"line `{short(line.text)}` has more than {MAX_LINE} characters")
        return
    try:
        name, *words = shlex.split(line.text)
    except ValueError:
        collector.mistake(line.number, f"`{short(line.text)}` has an unclosed quote")
        return
    variables: dict[str, Var] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            collector.mistake(
                line.number, f"unexpected `{short(word)}` after the host", "write variables as `key=value`"
            )
            return
        variables[key] = (value, line.number)
    found.host(name, line.number, variables, group)


def _variable(line: Line, group: AnsibleGroup, collector: HostCollector) -> None:
    key, equals, value = line.text.partition("=")
    if not equals:
        collector.mistake(line.number, f"`{short(line.text)}` is not a variable", "write variables as `key=value`")
        return
    text = value.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    group.vars.update(known_variables({key.strip(): (text, line.number)}))
