"""The files of somebody else's folder: its git configuration must run nothing here."""

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.transport.upload import ignore

WHO = ("-c", "user.name=x", "-c", "user.email=x@example.com")


def git(folder: Path, *argv: str) -> None:
    """Run git as the folder's author."""
    subprocess.run(("git", *WHO, "-C", str(folder), *argv), check=True, capture_output=True)


def repository(folder: Path) -> Path:
    """Make a repository with a tracked, an untracked and an ignored file."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / ".gitignore").write_text("ignored.txt\n")
    for name in ("tracked.txt", "untracked.txt", "ignored.txt"):
        (folder / name).write_text(name)
    git(folder, "add", ".gitignore", "tracked.txt")
    git(folder, "commit", "-qm", "one")
    return folder


Trap = Callable[[Path, str], None]


def of_config(*settings: tuple[str, str]) -> Trap:
    """Return a trap that is a setting; TRAP stands for the program."""

    def set_trap(folder: Path, program: str) -> None:
        for name, value in settings:
            git(folder, "config", name, value.replace("TRAP", program))

    return set_trap


def hooks(folder: Path, program: str) -> None:
    for name in ("post-index-change", "pre-auto-gc", "reference-transaction", "post-checkout", "fsmonitor-watchman"):
        hook = folder / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\nexec {program}\n")
        hook.chmod(0o755)
    git(folder, "config", "core.fsmonitor", ".git/hooks/fsmonitor-watchman")
    git(folder, "config", "core.splitIndex", "true")


def include(folder: Path, program: str) -> None:
    (folder / ".git" / "more").write_text(f'[core]\n\tfsmonitor = "{program}"\n\thooksPath = hooks\n')
    git(folder, "config", "include.path", "more")


def include_if(folder: Path, program: str) -> None:
    (folder / ".git" / "more").write_text(f'[core]\n\tfsmonitor = "{program}"\n')
    git(folder, "config", f"includeIf.gitdir:{folder}/.path", "more")


def of_worktree(folder: Path, program: str) -> None:
    git(folder, "config", "extensions.worktreeConfig", "true")
    git(folder, "config", "--worktree", "core.fsmonitor", program)


def filters(folder: Path, program: str) -> None:
    (folder / ".gitattributes").write_text("* filter=trap diff=trap merge=trap\n")
    names = (
        "filter.trap.clean",
        "filter.trap.smudge",
        "filter.trap.process",
        "diff.trap.textconv",
        "diff.trap.command",
    )
    of_config(*((name, "TRAP") for name in names))(folder, program)
    (folder / "tracked.txt").write_text("changed")


def nested(folder: Path, program: str) -> None:
    inner = repository(folder / "inner")
    git(inner, "config", "core.fsmonitor", program)
    hooks(inner, program)


def submodule(folder: Path, program: str) -> None:
    source = repository(folder.parent / "source")
    git(folder, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(source), "module")
    git(folder / "module", "config", "core.fsmonitor", program)
    git(folder, "config", "submodule.module.update", f"!{program}")
    git(folder, "config", "submodule.recurse", "true")


def bare(folder: Path, program: str) -> None:
    inner = folder / "bare"
    inner.mkdir()
    git(inner, "init", "-q", "--bare")
    git(inner, "config", "core.bare", "false")
    git(inner, "config", "core.worktree", str(folder))
    git(inner, "config", "core.fsmonitor", program)


def partial_clone(folder: Path, program: str) -> None:
    """A `.gitignore` that is neither in the folder nor among the objects: git would fetch it from the remote."""
    (folder / "below").mkdir()
    (folder / "below" / ".gitignore").write_text("nothing\n")
    (folder / "below" / "kept.txt").write_text("kept")
    git(folder, "add", "below")
    git(folder, "commit", "-qm", "two")
    git(folder, "update-index", "--skip-worktree", "below/.gitignore")
    found = subprocess.run(
        ("git", "-C", str(folder), "rev-parse", "HEAD:below/.gitignore"), capture_output=True, text=True, check=True
    )
    blob = found.stdout.strip()
    (folder / "below" / "new.txt").write_text("new")
    (folder / "below" / ".gitignore").unlink()
    (folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    of_config(
        ("remote.origin.url", str(folder.parent / "nowhere")),
        ("remote.origin.uploadpack", "TRAP"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.partialclonefilter", "blob:none"),
        ("extensions.partialClone", "origin"),
        ("core.repositoryFormatVersion", "1"),
    )(folder, program)


TRAPS: dict[str, Trap] = {
    "fsmonitor": of_config(("core.fsmonitor", "TRAP")),
    "fsmonitor version 1": of_config(("core.fsmonitor", "TRAP"), ("core.fsmonitorHookVersion", "1")),
    "hooks": hooks,
    "hooksPath": of_config(("core.hooksPath", ".git/traps"), ("core.splitIndex", "true")),
    "include": include,
    "includeIf": include_if,
    "worktree config": of_worktree,
    "filters and textconv": filters,
    "aliases": of_config(("alias.ls-files", "!TRAP"), ("alias.rev-parse", "!TRAP"), ("alias.check-ignore", "!TRAP")),
    "pager and editor": of_config(("core.pager", "TRAP"), ("pager.ls-files", "TRAP"), ("core.editor", "TRAP")),
    "askpass, ssh and proxy": of_config(
        ("core.askPass", "TRAP"), ("core.sshCommand", "TRAP"), ("core.gitProxy", "TRAP"), ("credential.helper", "!TRAP")
    ),
    "alternates": of_config(("core.alternateRefsCommand", "TRAP"), ("diff.external", "TRAP"), ("gpg.program", "TRAP")),
    "nested repository": nested,
    "submodule": submodule,
    "bare repository inside": bare,
    "partial clone": partial_clone,
}


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS.keys())
@pytest.mark.parametrize("own_rules", [False, True], ids=["rules of git", "skyignore"])
def test_listing_a_workdir_runs_nothing_that_its_configuration_names(
    tmp_path: Path, trap: Trap, own_rules: bool
) -> None:
    folder, sprung = repository(tmp_path / "code"), tmp_path / "sprung"
    program = tmp_path / "trap"
    program.write_text(f'#!/bin/sh\necho $0 "$@" >> {shlex.quote(str(sprung))}\nexit 1\n')
    program.chmod(0o755)
    if own_rules:
        (folder / ".skyignore").write_text("ignored.txt\n")
    trap(folder, str(program))
    assert not sprung.exists(), "the trap sprang while it was laid"
    files = ignore.listing(folder).files
    assert {b"tracked.txt", b"untracked.txt", b".gitignore"} <= set(files)
    assert b"ignored.txt" not in files
    assert not sprung.exists(), sprung.read_text()


@pytest.mark.parametrize(
    "trap", [of_config(("core.fsmonitor", "TRAP")), partial_clone], ids=["fsmonitor", "partial clone"]
)
def test_these_traps_work(tmp_path: Path, trap: Trap) -> None:
    """Git alone runs them: otherwise the test above would prove nothing."""
    folder, sprung, program = repository(tmp_path / "code"), tmp_path / "sprung", tmp_path / "trap"
    program.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(sprung))}\nexit 1\n")
    program.chmod(0o755)
    trap(folder, str(program))
    listing = ("git", "-C", str(folder), "ls-files", "--others", "--exclude-standard")
    subprocess.run(listing, capture_output=True, env=os.environ)
    assert sprung.exists()
