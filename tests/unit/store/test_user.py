"""Who starts a run: by uid, whatever the environment says."""

import os
import pwd

import pytest

from launcher.store.user import User


def test_a_user_is_found_by_uid(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "mallory")
    user = User.current()
    assert (user.name, user.host) == (pwd.getpwuid(os.getuid()).pw_name, os.uname().nodename)
    assert str(user) == f"{user.name}@{user.host}"


def test_a_uid_without_an_entry_is_shown_as_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_001)
    assert User.current().name == "uid 4000000001"
