"""A workdir from git: which commit, which files, and that a hostile repository runs nothing here."""

import subprocess
import tracemalloc
from pathlib import Path

import pytest

from launcher.core.model.git_workdir import GitWorkdir
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.errors import LaunchError
from launcher.transport.upload import clone as cloning
from launcher.transport.upload.clone import clone
from launcher.transport.upload.files import weigh
from tests.unit.transport.test_git import git


def head(folder: Path, ref: str = "HEAD") -> str:
    asked = subprocess.run(("git", "-C", str(folder), "rev-parse", ref), check=True, capture_output=True, text=True)
    return asked.stdout.strip()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with two commits: the first is tagged `v1`, the second is `main`."""
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "one").write_text("1")
    (folder / "kept.log").write_text("tracked although it is ignored")
    git(folder, "add", "-f", ".")
    git(folder, "commit", "-qm", "one")
    git(folder, "tag", "v1")
    (folder / "two").write_text("2")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "two")
    return folder


def fetched(origin: Path, tmp_path: Path, ref: str | None = None) -> tuple[str, list[str]]:
    found = clone(GitWorkdir(url=f"file://{origin}", ref=ref), tmp_path / "home")
    assert found.commit is not None
    assert found.checkout is not None
    return found.commit, sorted(path.name for path in Path(found.checkout).iterdir())


def test_branch_tag_commit_and_short_commit_are_checked_out(origin: Path, tmp_path: Path) -> None:
    first, second = head(origin, "v1"), head(origin)
    old, new = [".gitignore", "kept.log", "one"], [".gitignore", "kept.log", "one", "two"]
    assert fetched(origin, tmp_path) == (second, new)
    assert fetched(origin, tmp_path, "main") == (second, new)
    for ref in ("v1", first, first[:9]):
        assert fetched(origin, tmp_path, ref) == (first, old)


def test_all_files_of_the_commit_are_sent_also_those_that_it_ignores(origin: Path, tmp_path: Path) -> None:
    workdir = clone(GitWorkdir(url=f"file://{origin}"), tmp_path / "home")
    task = Task(name="t", groups=(Group(name="main", topology=TopologyRule()),), git=workdir)
    assert weigh(task).files == 4


def test_a_branch_that_moves_gives_a_new_commit_and_leaves_the_old_checkout(origin: Path, tmp_path: Path) -> None:
    before = clone(GitWorkdir(url=f"file://{origin}", ref="main"), tmp_path / "home")
    (origin / "three").write_text("3")
    git(origin, "add", ".")
    git(origin, "commit", "-qm", "three")
    after = clone(GitWorkdir(url=f"file://{origin}", ref="main"), tmp_path / "home")
    assert after == before  # a run that goes on may be resized although the branch moved
    assert (after.commit, before.commit) == (head(origin), head(origin, "HEAD~1"))
    assert not (Path(before.checkout or "") / "three").exists()


def test_filters_and_hooks_that_the_user_has_do_not_run(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attributes of a repository choose a filter, and the user's own configuration may have one of that name."""
    ran, config = tmp_path / "ran", tmp_path / "gitconfig"
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (hooks / "post-checkout").chmod(0o755)
    config.write_text(f'[filter "x"]\n smudge = touch {ran}; cat\n[core]\n hooksPath = {hooks}\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    (origin / ".gitattributes").write_text("* filter=x\n")
    git(origin, "-c", "filter.x.smudge=cat", "add", ".")
    git(origin, "-c", "core.hooksPath=/dev/null", "commit", "-qm", "filtered")
    ran.unlink(missing_ok=True)
    assert fetched(origin, tmp_path)[0] == head(origin)
    assert not ran.exists()


def test_submodules_are_not_fetched(origin: Path, tmp_path: Path) -> None:
    (origin / ".gitmodules").write_text(f'[submodule "s"]\n path = s\n url = "ext::sh -c touch% {tmp_path}/ran"\n')
    git(origin, "add", ".")
    git(origin, "update-index", "--add", "--cacheinfo", f"160000,{head(origin)},s")
    git(origin, "commit", "-qm", "submodule")
    assert fetched(origin, tmp_path)[0] == head(origin)
    assert not (tmp_path / "ran").exists()


def test_a_commit_with_too_many_files_is_refused_before_they_are_written(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloning, "MAX_FILES", 3)
    with pytest.raises(LaunchError, match="has more than 3 files"):
        fetched(origin, tmp_path)
    assert list((tmp_path / "home" / "checkouts").iterdir()) == []


def test_an_unknown_ref_and_a_deadline_say_what_to_do(origin: Path, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="couldn't find remote ref nosuch") as refusal:
        fetched(origin, tmp_path, "nosuch")
    assert refusal.value.hints == (f"try it: `git ls-remote file://{origin} nosuch`",)
    with pytest.raises(LaunchError, match="did not fetch"):
        clone(GitWorkdir(url=f"file://{origin}"), tmp_path / "home", limit=-10.0)


def test_of_a_server_that_talks_without_end_the_last_words_are_kept(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git passes on what a server says: here a stand-in says 200 MB, and what was wrong at last."""
    talker = tmp_path / "bin" / "git"
    talker.parent.mkdir()
    talker.write_text(
        "#!/bin/sh\ncase \"$*\" in *fetch*) head -c 200000000 /dev/zero | tr '\\0' '\\n' >&2; "
        "echo 'fatal: no such ref' >&2; exit 1;; esac\nexec /usr/bin/git \"$@\"\n"
    )
    talker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{talker.parent}:/usr/bin:/bin")
    tracemalloc.start()
    with pytest.raises(LaunchError, match="no such ref"):
        clone(GitWorkdir(url=f"file://{origin}"), tmp_path / "home")
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()
