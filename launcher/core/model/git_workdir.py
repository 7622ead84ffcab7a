"""A workdir that comes from a git repository."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class GitWorkdir:
    """The URL of a repository, and a branch, a tag or a commit; None for the repository's own default.

    `commit` is what that was when the run started, `checkout` the folder on the launching machine with its files: None
    until it is cloned. Two that differ in those only are the same.
    """

    url: str
    ref: str | None = None
    commit: str | None = field(default=None, compare=False)
    checkout: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """Return the URL, what was asked for, and the commit once it is known."""
        at = f" at {self.ref}" if self.ref else ""
        return f"{self.url}{at}" + (f", commit {self.commit[:12]}" if self.commit else "")
