"""`workdir` of a task: a local folder, or a git repository as SkyPilot writes it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from launcher.config.schema.fields import Field, section
from launcher.config.schema.scalars import Text
from launcher.config.schema.value_types import InvalidValueError, Schema, invalid
from launcher.config.task.local_paths import PathVariables, find_local, not_found
from launcher.config.yaml.diagnostics import Diagnostics, KeyPath
from launcher.config.yaml.nodes import MappingNode, Mark, ScalarKind, ScalarNode, YamlNode
from launcher.config.yaml.values import Values
from launcher.core.model.git_workdir import GitWorkdir

KEY = "workdir"

# What git fetches itself: `ext::` would run a command. A leading `-` would be an option.
_URL = re.compile(r"(https?|ssh|git|file)://[^\s\x00-\x1f]+|[A-Za-z0-9_][\w.-]*@[A-Za-z0-9_][\w.-]*:[^\s\x00-\x1f:]+")
_WITH_PASSWORD = re.compile(r"[a-z]+://[^/@]*:[^/@]*@|https?://[^/@]+@")
_REF = re.compile(r"[A-Za-z0-9_][\w./+@-]{0,250}")

_GIT = section(
    Field(name="url", doc="The URL of the repository.", type=Text(), required=True),
    Field(name="ref", doc="A branch, a tag or a commit.", type=Text(numbers=True)),
    expected="a folder, or a mapping such as `{url: https://github.com/a/b, ref: main}`",
)


@dataclass(frozen=True, slots=True)
class Workdir:
    """The path of a local folder, or the URL and ref of a git repository."""

    expected: str = "the path of a folder, or a mapping with `url`"

    def read(self, node: YamlNode, at: KeyPath) -> str | Values:
        """Return the path, or the section of a repository."""
        if isinstance(node, MappingNode):
            return _GIT.read(node, at)
        if isinstance(node, ScalarNode) and re.match(r"([a-z+]+://|git@)", node.text):
            hint = f"for a git repository, write `{at.name}: {{url: {node.text}}}`"
            raise InvalidValueError(node.mark, f"`{at.name}` must be the path of a folder, not a URL", hint)
        if not isinstance(node, ScalarNode) or node.kind is ScalarKind.NULL or not node.text:
            raise invalid(node, at, self.expected)
        return node.text

    def schema(self) -> Schema:
        """Return a string, or the section."""
        return {"anyOf": [{"type": "string"}, _GIT.schema()]}


def read_workdir(
    owners: Sequence[tuple[Values, PathVariables]], beside: Path, out: Diagnostics
) -> tuple[str | None, GitWorkdir | None]:
    """Return the folder to copy to every node, or the repository to clone first.

    `owners` are the tasks of a run, each with its variables, which are expanded as with SkyPilot; all must name the
    same workdir. `beside` is the folder of the task file.
    """
    found: dict[str | GitWorkdir, Mark] = {}
    for owner, variables in owners:
        if (one := _one(owner, variables, beside, out)) is not None:
            found.setdefault(one, owner.key_of(KEY))
    for mark in list(found.values())[1:]:
        out.mistake(mark, "another task of this run has another `workdir`", "use one folder that contains both")
    first = next(iter(found), None)
    return (None, first) if isinstance(first, GitWorkdir) else (first, None)


def _one(owner: Values, variables: PathVariables, beside: Path, out: Diagnostics) -> str | GitWorkdir | None:
    mark = owner.mark_of(KEY)
    if (section := owner.get(KEY, Values)) is not None:
        url, ref = (section.get(name, str) for name in ("url", "ref"))
        url, ref = (one and variables.expand(one, mark, out) for one in (url, ref))
        return _repository(url, ref or None, section, out) if url else None
    written = owner.get(KEY, str)
    written = written and variables.expand(written, mark, out)
    return _folder(written, mark, beside, out) if written else None


def _repository(url: str, ref: str | None, section: Values, out: Diagnostics) -> GitWorkdir | None:
    if not _URL.fullmatch(url):
        hint = "write `https://...`, `ssh://...` or `git@HOST:PATH`"
        out.mistake(section.mark_of("url"), f"`{url}` is not the URL of a git repository", hint)
        return None
    if _WITH_PASSWORD.match(url):
        hint = "remove it, and let git take it from a credential helper (`git help credentials`)"
        out.mistake(section.mark_of("url"), "the URL of `workdir` contains a password or a token, which is shown", hint)
        return None
    if ref is not None and (not _REF.fullmatch(ref) or ".." in ref):
        out.mistake(section.mark_of("ref"), f"`{ref}` is not a branch, a tag or a commit")
        return None
    return GitWorkdir(url=url, ref=ref)


def _folder(written: str, mark: Mark, beside: Path, out: Diagnostics) -> str | None:
    folder = find_local(written, beside, mark, out)
    if folder is None:
        not_found(written, beside, mark, out, what=f"`workdir: {written}`")
    elif not folder.is_dir():
        out.mistake(mark, f"`workdir: {written}` is not a folder")
    else:
        return str(folder)
    return None
