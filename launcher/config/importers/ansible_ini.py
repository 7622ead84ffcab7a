"""Ansible inventories in INI form (ansible/plugins/inventory/ini.py)."""

import re
import shlex

from launcher.config.importers.ansible import Ansible, Group, Var, readable
from launcher.config.importers.jumps import MAX_LINE
from launcher.config.importers.roster import Roster, short
from launcher.config.importers.text import Line, lines

SECTION = re.compile(r"\[([^\]:]+)(?::(\w+))?\]")
_PARTS = ("hosts", "children", "vars")


def read(text: str, roster: Roster) -> None:
    """Add the hosts to a roster."""
    found = Ansible(roster)
    group: Group | None = None
    part: str | None = "hosts"
    for line in lines(text, comments="#;"):
        if not line.text:
            continue
        if header := SECTION.fullmatch(line.text):
            part = header[2] or "hosts"
            group = found.group(header[1].strip(), line.number)
            if part not in _PARTS:
                roster.wrong(line.number, f"`{short(line.text)}` is no part of a group", "write `:vars` or `:children`")
                part = None
        elif part == "hosts":
            _host(line, group, found, roster)
        elif part == "children" and group is not None:
            group.children.setdefault(line.text.split()[0], line.number)
        elif part == "vars" and group is not None:
            _variable(line, group, roster)
    found.finish()


def _host(line: Line, group: Group | None, found: Ansible, roster: Roster) -> None:
    if len(line.text) > MAX_LINE:
        roster.wrong(line.number, f"the line of `{short(line.text)}` has more than {MAX_LINE} characters")
        return
    try:
        name, *words = shlex.split(line.text)
    except ValueError:
        roster.wrong(line.number, f"`{short(line.text)}` has a quote without its partner")
        return
    told: dict[str, Var] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            roster.wrong(line.number, f"`{short(word)}` after the host is not understood", "variables read `key=value`")
            return
        told[key] = (value, line.number)
    found.host(name, line.number, told, group)


def _variable(line: Line, group: Group, roster: Roster) -> None:
    key, equals, value = line.text.partition("=")
    if not equals:
        roster.wrong(line.number, f"`{short(line.text)}` is no variable", "variables read `key=value`")
        return
    text = value.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    group.vars.update(readable({key.strip(): (text, line.number)}))
