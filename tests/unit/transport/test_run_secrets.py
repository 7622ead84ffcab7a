"""The secrets of a run on its nodes: Ray's token, and keys for heartbeats that Ray never sees."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from launcher.core.model.run import RunId
from launcher.runtime.protocol_files import KEY, node_key
from launcher.setup.layout import HEAD_PLACE
from launcher.transport.upload import bundle

RUN = RunId("job-1")


def test_the_head_has_the_key_of_the_run_and_a_node_its_own_alone(tmp_path: Path) -> None:
    head = bundle.run_secrets(tmp_path, RUN, HEAD_PLACE)
    one, other = (bundle.run_secrets(tmp_path, RUN, name) for name in ("n1", "n2"))
    key = bytes.fromhex(head[KEY][0].decode())
    assert bytes.fromhex(one[KEY][0].decode()) == node_key(key, "n1")
    assert len({head[KEY][0], one[KEY][0], other[KEY][0], head["token"][0]}) == 4
    assert head["token"] == one["token"] == other["token"]
    assert {mode for files in (head, one) for _, mode in files.values()} == {0o600}


def test_they_stay_the_same_also_where_many_ask_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda _: bundle.run_secrets(tmp_path, RUN, "n1"), range(64)))
    assert all(files == made[0] for files in made)
    assert sorted(path.name for path in (tmp_path / "runs" / RUN).iterdir()) == [KEY, "token"]
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "runs" / RUN).iterdir()} == {0o600}


def test_a_run_of_an_older_version_stays_without_keys_until_it_ends(tmp_path: Path) -> None:
    """Its agents know of none: a new one that asked for a proof would take its head for somebody else's."""
    folder = tmp_path / "runs" / RUN
    folder.mkdir(parents=True)
    (folder / "token").write_text("ab" * 32)
    for place in ("n1", HEAD_PLACE):
        assert bundle.run_secrets(tmp_path, RUN, place) == {"token": (b"ab" * 32, 0o600)}
